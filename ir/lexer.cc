#include "ir/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "ir/text.h"

namespace mkc {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Returns the value of a hexadecimal digit (lower case), or -1 for any other character.
int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

struct Lexer {
  std::string_view text;
  const std::string& file;
  size_t at = 0;
  uint32_t line = 1;
  size_t line_begin = 0;
  std::vector<Token> tokens{};
  std::optional<Error> error{};

  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  bool at_end() const { return at == text.size(); }
  // Returns the bytes of the UTF-8 character here, or 1 where none begins.
  size_t character_bytes() const {
    const int ones = std::countl_one(static_cast<unsigned char>(peek()));
    size_t bytes = 1;
    while (ones <= 4 && bytes < static_cast<size_t>(ones) &&
           std::countl_one(static_cast<unsigned char>(peek(bytes))) == 1)
      ++bytes;
    return bytes;
  }
  uint32_t column() const { return static_cast<uint32_t>(at - line_begin + 1); }
  void fail(const std::string& message) { error = error_at({file, line, column()}, message, text); }

  void skip_blanks();
  void newline();
  void token();
  std::string digits();
  std::string number(TokenKind& kind);
  std::string word();
  std::string quoted();
  std::string hex_escape();
  void name_after_sigil(Token& token);
};

void Lexer::skip_blanks() {
  while (peek() == ' ' || peek() == '\t' || peek() == '\r') ++at;
  if (peek() == '/' && peek(1) == '/')
    while (!at_end() && peek() != '\n') ++at;
}

void Lexer::newline() {
  if (!tokens.empty() && tokens.back().kind != TokenKind::kNewline)
    tokens.push_back({.kind = TokenKind::kNewline, .line = line, .col = column()});
  ++at, ++line;
  line_begin = at;
}

std::string Lexer::digits() {
  const size_t begin = at;
  while (is_digit(peek())) ++at;
  return std::string(text.substr(begin, at - begin));
}

std::string Lexer::number(TokenKind& kind) {
  std::string out = digits();
  if (peek() == '.' && is_digit(peek(1))) {
    kind = TokenKind::kFloat;
    ++at;
    out += "." + digits();
  }
  const size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
  if (peek() == 'e' && is_digit(peek(1 + sign))) {
    kind = TokenKind::kFloat;
    out += text.substr(at, 1 + sign);
    at += 1 + sign;
    out += digits();
  }
  return out;
}

std::string Lexer::word() {
  const size_t begin = at;
  while (continues_name(peek())) ++at;
  return std::string(text.substr(begin, at - begin));
}

std::string Lexer::hex_escape() {
  const int high = hex_value(peek(1)), low = hex_value(peek(2));
  if (high < 0 || low < 0) {
    fail("expected two hexadecimal digits after '\\x'");
    return {};
  }
  at += 3;
  return std::string(1, static_cast<char>(high * 16 + low));
}

std::string Lexer::quoted() {
  const size_t begin = at++;
  std::string out;
  while (!error && !at_end() && peek() != '\n' && peek() != '"') {
    if (peek() != '\\') {
      out += text[at++];
      continue;
    }
    ++at;
    if (peek() == 'x')
      out += hex_escape();
    else if (peek() == '"' || peek() == '\\')
      out += text[at++];
    else
      fail("unknown escape, expected '\\\\', '\\\"' or '\\xHH'");
  }
  if (error) return out;
  if (peek() != '"') {
    at = begin;
    fail("string without its closing '\"' on this line");
  }
  ++at;
  return out;
}

void Lexer::name_after_sigil(Token& token) {
  ++at;
  if (peek() == '"') {
    token.text = quoted();
  } else if (peek() == '#' && is_digit(peek(1))) {
    ++at;
    token.is_number = true;
    token.text = digits();
  } else if (starts_name(peek())) {
    token.text = word();
  } else {
    fail(fmt::format("expected a name after '{}'", token.kind == TokenKind::kTensor ? '%' : '@'));
  }
}

void Lexer::token() {
  Token t{.kind = TokenKind::kPunct, .line = line, .col = column()};
  const char c = peek();
  if (starts_name(c)) {
    t.kind = TokenKind::kWord;
    t.text = word();
  } else if (is_digit(c)) {
    t.kind = TokenKind::kInt;
    t.text = number(t.kind);
  } else if (c == '"') {
    t.kind = TokenKind::kString;
    t.text = quoted();
  } else if (c == '%' || c == '@') {
    t.kind = c == '%' ? TokenKind::kTensor : TokenKind::kEvent;
    name_after_sigil(t);
  } else if ((c == '-' && peek(1) == '>') || (c == ':' && peek(1) == '+')) {
    t.text = text.substr(at, 2);
    at += 2;
  } else if (std::string_view("()[]{},:=+-*$#").find(c) != std::string_view::npos) {
    t.text = text.substr(at++, 1);
  } else {
    fail("unexpected character " + spell_string(text.substr(at, character_bytes())));
  }
  if (!error && t.text.size() > kMaxWordBytes) {
    at = line_begin + t.col - 1;
    fail(fmt::format("word of {} bytes, at most {}", t.text.size(), kMaxWordBytes));
  }
  tokens.push_back(std::move(t));
}

}  // namespace

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "end of text";
    case TokenKind::kNewline:
      return "end of line";
    case TokenKind::kString:
      return spell_string(token.text);
    case TokenKind::kTensor:
    case TokenKind::kEvent:
      return fmt::format("'{}{}{}'", token.kind == TokenKind::kTensor ? '%' : '@', token.is_number ? "#" : "",
                         token.is_number ? token.text : spell_name(token.text));
    case TokenKind::kWord:
    case TokenKind::kInt:
    case TokenKind::kFloat:
    case TokenKind::kPunct:
      return "'" + token.text + "'";
  }
  MKC_BUG("token of unknown kind");
}

Result<std::vector<Token>> tokenize(std::string_view text, const std::string& file) {
  Lexer lexer{text, file};
  while (!lexer.error) {
    lexer.skip_blanks();
    if (lexer.at_end()) break;
    if (lexer.peek() == '\n')
      lexer.newline();
    else
      lexer.token();
  }
  if (lexer.error) return *std::move(lexer.error);
  lexer.tokens.push_back({.kind = TokenKind::kEnd, .line = lexer.line, .col = lexer.column()});
  return std::move(lexer.tokens);
}

}  // namespace mkc
