// These tests check that each .mkir file of this folder gives exactly the errors that it announces. A comment
// `// error: …` announces an error at the end of the line it is about. MKC_BLESS=1 writes these comments
// instead.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "ir/verify.h"
#include "tests/mkir_files.h"

namespace mkc::test {
namespace {

namespace fs = std::filesystem;

const std::string kMark = "// error: ";

// Messages maps line numbers to messages.
using Messages = std::multimap<uint32_t, std::string>;

Messages announced(const std::vector<std::string>& lines) {
  Messages out;
  for (uint32_t i = 0; i < lines.size(); ++i)
    for (size_t at = lines[i].find(kMark); at != std::string::npos;) {
      const size_t next = lines[i].find(" " + kMark, at + 1);
      const size_t begin = at + kMark.size();
      out.emplace(i + 1, lines[i].substr(begin, next == std::string::npos ? next : next - begin));
      at = next == std::string::npos ? next : next + 1;
    }
  return out;
}

Messages found(const std::string& text) {
  Places places;
  std::vector<Error> errors;
  Result<Module> module = parse_mkir(text, "t.mkir", &places);
  if (module.ok())
    errors = verify(module.value(), &places);
  else
    errors.push_back(module.error());
  Messages out;
  for (const Error& error : errors) {
    static const std::regex form("t\\.mkir:(\\d+):\\d+: error: ([^\\n]*)(\\n[^]*)?");
    std::smatch match;
    REQUIRE_MESSAGE(std::regex_match(error.message, match, form), error.message);
    out.emplace(static_cast<uint32_t>(std::stoul(match[1])), match[2]);
  }
  return out;
}

void bless(const fs::path& path, const std::vector<std::string>& lines, const Messages& messages) {
  std::string text;
  for (uint32_t i = 0; i < lines.size(); ++i) {
    std::string line = lines[i].substr(0, lines[i].find(kMark));
    while (line.ends_with(' ')) line.pop_back();
    const auto [begin, end] = messages.equal_range(i + 1);
    for (auto it = begin; it != end; ++it) line += " " + kMark + it->second;
    text += line + '\n';
  }
  write_file(path, text);
}

TEST_CASE("every .mkir file gives the errors it announces, on their lines") {
  for (const fs::path& path : mkir_files("mkir")) {
    const std::string text = read_file(path);
    const std::vector<std::string> lines = split_lines(text);
    const Messages messages = found(text), expected = announced(lines);
    if (blessing()) {
      bless(path, lines, messages);
      continue;
    }
    for (const auto& [line, message] : messages)
      if (std::find(expected.begin(), expected.end(), Messages::value_type(line, message)) == expected.end())
        FAIL_CHECK(fmt::format("{}:{}: not announced: {}", path.filename().string(), line, message));
    for (const auto& [line, message] : expected)
      if (std::find(messages.begin(), messages.end(), Messages::value_type(line, message)) == messages.end())
        FAIL_CHECK(fmt::format("{}:{}: not found: {}", path.filename().string(), line, message));
  }
}

TEST_CASE("every rule of the verifier is broken by a .mkir file") {
  std::set<int> rules, broken;
  static const std::regex rule("//   V(\\d+) "), announcement("// error: V(\\d+): ");
  const std::string header = read_file(MKC_SOURCE_DIR "/ir/verify.h");
  for (std::sregex_iterator it(header.begin(), header.end(), rule), end; it != end; ++it)
    rules.insert(std::stoi((*it)[1]));
  for (const fs::path& path : mkir_files("mkir")) {
    const std::string text = read_file(path);
    for (std::sregex_iterator it(text.begin(), text.end(), announcement), end; it != end; ++it)
      broken.insert(std::stoi((*it)[1]));
  }
  CHECK(rules.size() == 35);
  CHECK(broken == rules);
}

TEST_CASE("a valid file prints as it stands, up to comments") {
  for (const fs::path& path : mkir_files("mkir")) {
    const std::string text = read_file(path);
    if (!path.filename().string().starts_with("valid_")) continue;
    const Result<Module> module = parse_mkir(text, "t.mkir");
    REQUIRE_MESSAGE(module.ok(), module.error().message);
    CHECK(text_of(module.value()) == text);
  }
}

}  // namespace
}  // namespace mkc::test
