// Commands write to standard streams and files.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

#include "ir/diag.h"

namespace mkc {

constexpr size_t kColumns = 120;  // longest line for people

// Prints to standard output, and does not throw. finish_output() reports a stream that failed.
void put_stdout(std::string_view text);
// Prints to standard error. Failures are ignored.
void put_stderr(std::string_view text);

template <class... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  put_stdout(fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void print_err(fmt::format_string<Args...> format, Args&&... args) {
  put_stderr(fmt::format(format, std::forward<Args>(args)...));
}

// Breaks lines at spaces to at most kColumns columns. Continued lines begin with `indent` spaces.
std::string folded(std::string_view text, size_t indent = 2);

template <class... Args>
void print_folded(size_t indent, fmt::format_string<Args...> format, Args&&... args) {
  put_stdout(folded(fmt::format(format, std::forward<Args>(args)...), indent));
}

// Returns JSON as text. Bytes that are not UTF-8, which paths may have, become U+FFFD.
template <class Json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Returns the exit code of a command that succeeded: `code`, or 1 with a message if its output was not
// written.
int finish_output(int code);

// Prints an error to standard error. The program's name is added to errors that name no place.
void print_error(const std::string& message);

// Writes to a file, or to standard output for "-". Errors: those of mkrt::write_file; standard output that is
// closed; a terminal, if the bytes are not text.
Status put_out(const std::string& path, std::span<const std::byte> bytes, bool text);

// Refuses "-" as the file of a flag where something else, such as "--json", takes standard output.
Status check_is_file(const char* flag, const std::string& path, const char* taker = "the result");

// HelpFormatter folds the lines of CLI11's help.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace mkc
