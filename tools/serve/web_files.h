// The program holds the files of the server's web page (tools/serve/page/, tools/page/).
#pragma once

#include <span>
#include <string_view>

namespace mkc {

struct WebFile {
  std::string_view name;  // in its folder
  std::string_view bytes;
};

// Returns all files. The build makes this function from the folders (tools/embed.cmake).
std::span<const WebFile> web_files();

// Returns the file behind a path, or null: "/" is index.html, and "/page/NAME" any other file.
const WebFile* find_web_file(std::string_view path);

// Returns the content type of a file by its name's ending. Requires a file of web_files().
std::string_view content_type_of(const WebFile& file);

// Browsers enforce this policy on the page: everything from this server, no code in text, no frames.
inline constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'";

}  // namespace mkc
