#include "tests/filetests/file_test.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/mkir_files.h"

namespace mkc::test {
namespace {

constexpr size_t kContext = 3;  // lines before the first difference

}  // namespace

FileTest read_file_test(const std::filesystem::path& path) {
  FileTest test{path, path.parent_path().filename().string() + "/" + path.filename().string(), "", ""};
  const std::string text = read_file(path), mark = std::string("\n") + kOutputMark + "\n";
  const size_t at = text.find(mark);
  test.input = text.substr(0, at == std::string::npos ? at : at + 1);
  if (at != std::string::npos) test.expected = text.substr(at + mark.size());
  return test;
}

std::string difference(const FileTest& test, const std::string& found) {
  if (found == test.expected) return "";
  const std::vector<std::string> expected = split_lines(test.expected), now = split_lines(found);
  const auto [a, b] = std::mismatch(expected.begin(), expected.end(), now.begin(), now.end());
  const auto same = static_cast<size_t>(a - expected.begin());
  const size_t line = split_lines(test.input).size() + 2 + same;
  std::string out =
      fmt::format("{}:{}: another output than expected (MKC_BLESS=1 writes it)\n", test.name, line);
  for (size_t i = same - std::min(same, kContext); i < same; ++i) out += "  " + expected[i] + "\n";
  out += "- " + (a == expected.end() ? "the end" : *a) + "\n";
  out += "+ " + (b == now.end() ? "the end" : *b) + "\n";
  return out;
}

void bless(const FileTest& test, const std::string& found) {
  write_file(test.path, test.input + kOutputMark + "\n" + found);
}

}  // namespace mkc::test
