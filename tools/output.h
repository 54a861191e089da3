// What commands print, and the files that they write.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

#include "ir/diag.h"

namespace mkc {

constexpr size_t kColumns = 120;  // of lines for people

// Prints to standard output. Nothing throws: a stream that fails remembers it, and finish_output says so.
void put_stdout(std::string_view text);
// Prints to standard error, whether anybody reads it or not.
void put_stderr(std::string_view text);

template <class... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  put_stdout(fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void print_err(fmt::format_string<Args...> format, Args&&... args) {
  put_stderr(fmt::format(format, std::forward<Args>(args)...));
}

// Lines of at most kColumns, broken at spaces; what goes on in the next line begins with `indent` spaces.
std::string folded(std::string_view text, size_t indent = 2);

template <class... Args>
void print_folded(size_t indent, fmt::format_string<Args...> format, Args&&... args) {
  put_stdout(folded(fmt::format(format, std::forward<Args>(args)...), indent));
}

// The exit code of a command that succeeded: 1 if what it printed did not arrive.
int finish_output(int code);

// An error that does not name a file says which program it is from.
void print_error(const std::string& message);

// Writes to a file, or to standard output for "-". Errors: those of mkrt::write_file; standard output that is
// closed, or a terminal where the bytes are not text.
Status put_out(const std::string& path, std::span<const std::byte> bytes, bool text);

// Descriptors 0 to 2 that are closed are opened on /dev/null, so that no file becomes standard output.
void reserve_standard_streams();

// CLI11's help in lines that fit.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace mkc
