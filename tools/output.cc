#include "tools/output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/base/file.h"

namespace mkc {
namespace {

const Error kNotWritten{"mkc: error: cannot write to standard output"};

std::string fold_line(std::string_view line, size_t indent) {
  std::string out;
  while (line.size() > kColumns) {
    const size_t first = line.find_first_not_of(' ');
    const size_t space = line.rfind(' ', kColumns);
    if (space == line.npos || space <= first + 1) break;  // a single word is not broken
    out += std::string(line.substr(0, space)) + "\n";
    line.remove_prefix(space + 1);
    const std::string rest = std::string(indent, ' ') + std::string(line);
    return out + fold_line(rest, indent);
  }
  return out + std::string(line);
}

}  // namespace

void put_stdout(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void put_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

std::string folded(std::string_view text, size_t indent) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out += fold_line(text.substr(begin, end - begin), indent);
    if (end < text.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

int finish_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  put_stderr(kNotWritten.message + "\n");
  return 1;
}

void print_error(const std::string& message) {
  const bool placed = message.find("error: ") != std::string::npos;
  print_err("{}{}\n", placed ? "" : "mkc: error: ", message);
}

Status put_out(const std::string& path, std::span<const std::byte> bytes, bool text) {
  if (path != "-") return mkrt::write_file(path, bytes);
  if (!text && isatty(STDOUT_FILENO))
    return Error{"mkc: error: standard output is a terminal; use -o FILE for binary output"};
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0)
    return kNotWritten;
  return {};
}

Status check_is_file(const char* flag, const std::string& path, const char* taker) {
  if (path != "-") return {};
  return Error{fmt::format("{} -: error: {} takes standard output, expected a file", flag, taker)};
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  return folded(CLI::Formatter::make_help(app, std::move(name), mode), get_column_width());
}

}  // namespace mkc
