#include "frontend/source.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ir/source_line.h"

namespace mkc {

Result<Source> read_source(const std::string& path) {
  std::error_code code;
  const std::filesystem::file_status found = std::filesystem::status(path, code);
  if (std::filesystem::is_directory(found)) return error_at({path}, "is a directory, expected a file");
  // The opening of a pipe would wait for its writer.
  if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found))
    return error_at({path}, "is not a regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return error_at({path}, fmt::format("cannot be read: {}", std::strerror(errno)));
  const auto bytes = std::filesystem::file_size(path, code);
  if (bytes > kMaxSourceBytes) {
    return error_at({path}, fmt::format("has {} bytes, at most {} are read", bytes, kMaxSourceBytes));
  }
  Source source{path, {std::istreambuf_iterator<char>(file), {}}};
  MKC_TRY_STATUS(check_text(source));
  return source;
}

Status check_text(const Source& source) {
  const std::string_view text = source.text;
  size_t length = 1;
  for (size_t i = 0; i < text.size(); i += length) {
    const char c = text[i];
    const bool control = (c >= 0 && c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
    length = character_bytes(text, i);
    if (length != 0 && !control) continue;
    const Place place = place_of(text, i);
    // The message shows no source line, because its bytes are at fault.
    return error_at({source.path, place.line, place.col},
                    fmt::format("byte 0x{:02x} {}", static_cast<unsigned char>(c),
                                control ? "is a control character, expected text" : "is not valid UTF-8"));
  }
  return {};
}

Error error_in(const Source& source, uint32_t line, uint32_t col, std::string_view message) {
  return error_at({source.path, line, col}, message, source.text);
}

Place place_of(std::string_view text, size_t offset) {
  Place place{1, 1};
  for (size_t i = 0; i < offset && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++place.line;
      place.col = 1;
    } else {
      ++place.col;
    }
  }
  return place;
}

}  // namespace mkc
