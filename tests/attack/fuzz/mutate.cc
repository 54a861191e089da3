#include "tests/attack/fuzz/mutate.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>
#include <vector>

namespace mkc::attack {
namespace {

constexpr size_t kMaxBytes = 1 << 16;
constexpr size_t kPartBytes = 2048;

constexpr const char* kNumbers[] = {"0",
                                    "-0",
                                    "-1",
                                    "1",
                                    "2",
                                    "3",
                                    "7",
                                    "15",
                                    "16",
                                    "17",
                                    "31",
                                    "33",
                                    "63",
                                    "64",
                                    "65",
                                    "127",
                                    "129",
                                    "255",
                                    "257",
                                    "4096",
                                    "65535",
                                    "65537",
                                    "16777215",
                                    "16777217",
                                    "2147483647",
                                    "2147483648",
                                    "-2147483648",
                                    "-2147483649",
                                    "4294967295",
                                    "4294967296",
                                    "4294967297",
                                    "1099511627776",
                                    "9007199254740993",
                                    "9223372036854775807",
                                    "9223372036854775808",
                                    "-9223372036854775808",
                                    "18446744073709551615",
                                    "18446744073709551616",
                                    "1e400",
                                    "-1e400",
                                    "1e-400",
                                    "0.5",
                                    "1.0",
                                    "3.4e38",
                                    "1e308",
                                    "NaN",
                                    "Infinity",
                                    "-Infinity",
                                    ".nan",
                                    ".inf",
                                    "0x10",
                                    "0o7",
                                    "00",
                                    "1e",
                                    "--1"};

constexpr const char* kValues[] = {"null",
                                   "true",
                                   "false",
                                   "[]",
                                   "{}",
                                   "\"\"",
                                   "[[[[]]]]",
                                   "{\"a\":{\"a\":{}}}",
                                   "~",
                                   "[0,0]",
                                   "[1,2,3,4,5,6,7,8,9]",
                                   "*a",
                                   "&a",
                                   "!!binary",
                                   "<<",
                                   "---",
                                   "..."};

const std::string_view kTexts[] = {"",
                                   "\"",
                                   "\\",
                                   "\\u0000",
                                   "\\ud800",
                                   "\xff\xfe",
                                   std::string_view("\0", 1),
                                   "\xc0\x80",
                                   "\xf4\x90\x80\x80",
                                   "a",
                                   "T",
                                   "B",
                                   "kv_len",
                                   "/",
                                   "..",
                                   "%",
                                   "{n}",
                                   "{e}",
                                   "*",
                                   "(?:",
                                   "[a-",
                                   "\\p{",
                                   "(a+)+$",
                                   "(?<=a)",
                                   "\r",
                                   "\t",
                                   " ",
                                   "#",
                                   ":"};

struct Token {
  size_t begin, end;
  char kind;  // 'n' number, 's' quoted text, 'w' word, 'p' anything else
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

size_t end_of_text(std::string_view text, size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      return at + 1;
  }
  return text.size();
}

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    char kind = 'p';
    if (text[at] == '"') {
      at = end_of_text(text, at), kind = 's';
    } else if (is_word(text[at])) {
      kind = std::isdigit(static_cast<unsigned char>(text[at])) != 0 ? 'n' : 'w';
      while (at < text.size() && is_word(text[at])) ++at;
    } else {
      ++at;
    }
    if (kind != 'p' || std::isspace(static_cast<unsigned char>(text[begin])) == 0)
      tokens.push_back({begin, at, kind});
  }
  return tokens;
}

// Returns the token's replacement.
std::string instead_of(const Token& token, std::string_view text, const std::vector<Token>& all,
                       Random& random) {
  const auto pick = [&](const auto& list) { return std::string(list[random.below(std::size(list))]); };
  switch (random.below(6)) {
    case 0: {  // another token of the text
      const Token& other = all[random.below(all.size())];
      return std::string(text.substr(other.begin, other.end - other.begin));
    }
    case 1:
      return "";
    case 2:
      return pick(kValues);
    default:
      if (token.kind == 'n') return pick(kNumbers);
      if (token.kind == 's') return "\"" + pick(kTexts) + "\"";
      if (token.kind == 'w') return random.below(2) == 0 ? pick(kTexts) : pick(kNumbers);
      return std::string(1, "{}[]():,=<>+-*/%|"[random.below(17)]);
  }
}

// Returns the offset of the part of a text whose tokens are looked at. Long texts would take a fuzzer's time.
size_t part_of(std::string_view text, Random& random) {
  return text.size() > kPartBytes ? random.below(text.size() - kPartBytes + 1) : 0;
}

void change_token(std::string& text, Random& random) {
  const size_t at = part_of(text, random);
  const std::string_view part = std::string_view(text).substr(at, kPartBytes);
  const std::vector<Token> tokens = tokens_of(part);
  if (tokens.empty()) return;
  const Token& token = tokens[random.below(tokens.size())];
  const std::string to = instead_of(token, part, tokens, random);
  text.replace(at + token.begin, token.end - token.begin, to);
}

// Changes a number: by 1, by 16, to its double, its half or its negative.
void nudge_number(std::string& text, Random& random) {
  const size_t at = part_of(text, random);
  std::vector<Token> tokens = tokens_of(std::string_view(text).substr(at, kPartBytes));
  std::erase_if(tokens, [&](const Token& t) { return t.kind != 'n' || t.end - t.begin > 15; });
  if (tokens.empty()) return;
  const Token& token = tokens[random.below(tokens.size())];
  const std::string number = text.substr(at + token.begin, token.end - token.begin);
  if (!std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
    return;
  const long long value = std::stoll(number);
  const long long to[] = {value + 1, value - 1, value * 2, value / 2, -value, value + 16};
  text.replace(at + token.begin, token.end - token.begin, std::to_string(to[random.below(std::size(to))]));
}

void change_byte(std::string& text, Random& random) {
  if (text.empty()) return;
  char& c = text[random.below(text.size())];
  c = static_cast<char>(random.below(2) == 0 ? c ^ (1 << random.below(8)) : random.below(256));
}

// Leaves out, doubles or moves a run of lines or of bytes.
void move_run(std::string& text, Random& random) {
  if (text.empty()) return;
  size_t begin = random.below(text.size()), end = std::min(text.size(), begin + 1 + random.below(64));
  if (random.below(2) == 0) {
    begin = text.rfind('\n', begin) == text.npos ? 0 : text.rfind('\n', begin) + 1;
    end = text.find('\n', end) == text.npos ? text.size() : text.find('\n', end) + 1;
  }
  const std::string run = text.substr(begin, end - begin);
  const size_t how = random.below(3);
  if (how != 1) text.erase(begin, end - begin);
  if (how != 0) text.insert(random.below(text.size() + 1), run);
}

void nest(std::string& text, Random& random) {
  const char open = "[{("[random.below(3)];
  text.insert(random.below(text.size() + 1), std::string(1 + random.below(200), open));
}

}  // namespace

uint64_t Random::next() {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return state_ * 0x2545f4914f6cdd1du;
}

std::string mutate(std::string text, Random& random) {
  for (size_t changes = 1 + random.below(4); changes > 0; --changes) {
    switch (random.below(10)) {
      case 0:
      case 1:
        change_byte(text, random);
        break;
      case 2:
        move_run(text, random);
        break;
      case 3:
        nudge_number(text, random);
        break;
      case 4:
        if (random.below(4) == 0)
          nest(text, random);
        else if (random.below(4) == 0)
          text.resize(random.below(text.size() + 1));
        break;
      default:
        change_token(text, random);
    }
  }
  if (text.size() > kMaxBytes) text.resize(kMaxBytes);
  return text;
}

}  // namespace mkc::attack
