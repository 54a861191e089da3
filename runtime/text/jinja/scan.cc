#include "runtime/text/jinja/scan.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/text.h"
#include "runtime/text/utf8.h"

namespace mkrt::jinja {
namespace {

constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool is_digit_of(char c, int base) {
  const char lower = static_cast<char>(c | 0x20);
  if (base == 16 && lower >= 'a' && lower <= 'f') return true;
  return c >= '0' && c < '0' + std::min(base, 10);
}

// Returns the bytes of digits with single underscores between them, from the offset on.
size_t digits(std::string_view source, size_t at, int base) {
  const size_t begin = at;
  while (at < source.size()) {
    const bool underscore = source[at] == '_' && at > begin && at + 1 < source.size();
    if (underscore && is_digit_of(source[at + 1], base)) ++at;
    if (!is_digit_of(source[at], base)) break;
    ++at;
  }
  return at - begin;
}

std::string without_underscores(std::string_view text) {
  std::string result(text);
  std::erase(result, '_');
  return result;
}

// Returns the bytes of a float at the front, or 0.
size_t float_size(std::string_view source) {
  size_t at = digits(source, 0, 10);
  if (at == 0) return 0;
  bool is_float = false;
  if (at < source.size() && source[at] == '.') {
    const size_t fraction = digits(source, at + 1, 10);
    if (fraction > 0) at += 1 + fraction;
    is_float = fraction > 0;
  }
  if (at < source.size() && (source[at] == 'e' || source[at] == 'E')) {
    const bool sign = at + 1 < source.size() && (source[at + 1] == '+' || source[at + 1] == '-');
    const size_t exponent = digits(source, at + 1 + sign, 10);
    if (exponent > 0) return at + 1 + sign + exponent;
  }
  return is_float ? at : 0;
}

struct IntegerText {
  size_t prefix;
  size_t digits;
  int base;
};

// Returns the parts of an integer at the front. A decimal number begins with 0 only if it has no other
// digits.
IntegerText integer_text(std::string_view source) {
  const char type = source.size() > 1 ? static_cast<char>(source[1] | 0x20) : '\0';
  const int base = type == 'x' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  if (source[0] == '0' && base != 10) {
    const size_t skipped = source.size() > 2 && source[2] == '_' ? 3 : 2;
    if (const size_t count = digits(source, skipped, base); count > 0) return {skipped, count, base};
  }
  return {0, digits(source, 0, source[0] == '0' ? 1 : 10), 10};
}

size_t scan_integer(std::string_view source, Token& token) {
  const IntegerText text = integer_text(source);
  const std::string number = without_underscores(source.substr(text.prefix, text.digits));
  const char* end = number.data() + number.size();
  if (std::from_chars(number.data(), end, token.integer, text.base).ec != std::errc())
    fail_at(token.line, "the integer {} has more than 64 bits", source.substr(0, text.prefix + text.digits));
  token.kind = TokenKind::kInteger;
  return text.prefix + text.digits;
}

size_t scan_name(std::string_view source, Token& token) {
  size_t at = 0;
  while (at < source.size()) {
    const Utf8Front front = scan_utf8(source.substr(at));
    if (!is_identifier(first_code_point(source.substr(at)), at == 0)) break;
    at += front.size;
  }
  token.kind = TokenKind::kName;
  token.text = source.substr(0, at);
  return at;
}

size_t scan_string(std::string_view source, Token& token) {
  size_t end = 1;
  while (end < source.size() && source[end] != source[0]) end += source[end] == '\\' ? 2 : 1;
  if (end >= source.size()) fail_at(token.line, "the string has no end: expected {}", source[0]);
  token.kind = TokenKind::kString;
  token.text = unescape(source.substr(1, end - 1), token.line);
  return end + 1;
}

// Appends the character of an escape with a number: octal, \x, \u or \U.
void append_escaped(char32_t code_point, uint32_t line, std::string& text) {
  if (code_point > 0x10FFFF)
    fail_at(line, "the escape {:#x} is beyond Unicode", static_cast<uint32_t>(code_point));
  if (code_point >= 0xD800 && code_point < 0xE000)
    fail_at(line, "the escape \\u{:04x} is a surrogate, which UTF-8 cannot hold",
            static_cast<uint32_t>(code_point));
  append_utf8(code_point, text);
}

// Reads the digits of \x, \u and \U, whose number the letter gives. Returns their count.
size_t unescape_hex(std::string_view digits_text, char letter, uint32_t line, std::string& text) {
  const size_t count = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
  const std::string_view number = digits_text.substr(0, count);
  if (number.size() < count || digits(number, 0, 16) != count || number.find('_') != number.npos)
    fail_at(line, "the escape \\{} needs {} hexadecimal digits", letter, count);
  uint32_t code_point = 0;
  std::from_chars(number.begin(), number.end(), code_point, 16);
  append_escaped(code_point, line, text);
  return count;
}

size_t unescape_octal(std::string_view source, uint32_t line, std::string& text) {
  size_t count = 0;
  char32_t code_point = 0;
  while (count < 3 && count < source.size() && is_digit_of(source[count], 8))
    code_point = code_point * 8 + static_cast<char32_t>(source[count++] - '0');
  append_escaped(code_point, line, text);
  return count;
}

// Reads what follows a backslash and returns its bytes.
size_t unescape_one(std::string_view source, uint32_t line, std::string& text) {
  constexpr std::string_view kLetters = "\\'\"abfnrtv";
  constexpr std::string_view kValues = "\\'\"\a\b\f\n\r\t\v";
  const char letter = source[0];
  if (letter == '\n') return 1;
  if (const size_t found = kLetters.find(letter); found != kLetters.npos) {
    text += kValues[found];
    return 1;
  }
  if (is_digit_of(letter, 8)) return unescape_octal(source, line, text);
  if (letter == 'x' || letter == 'u' || letter == 'U')
    return 1 + unescape_hex(source.substr(1), letter, line, text);
  if (letter == 'N') fail_at(line, "unsupported: the escape \\N");
  text += '\\';
  if (static_cast<unsigned char>(letter) < 0x80) return 0;
  // Jinja2 turns other characters into escapes first, and so the backslash takes the escape's own.
  const auto code_point = static_cast<uint32_t>(first_code_point(source));
  text += code_point < 0x100     ? fmt::format("x{:02x}", code_point)
          : code_point < 0x10000 ? fmt::format("u{:04x}", code_point)
                                 : fmt::format("U{:08x}", code_point);
  return scan_utf8(source).size;
}

}  // namespace

std::string unescape(std::string_view contents, uint32_t line) {
  std::string text;
  for (size_t at = 0; at < contents.size();) {
    if (contents[at] != '\\') {
      text += contents[at++];
    } else {
      ++at;
      at += unescape_one(contents.substr(at), line, text);
    }
  }
  return text;
}

size_t scan_token(std::string_view source, bool after_dot, Token& token) {
  const char first = source[0];
  if (is_digit_of(first, 10)) {
    const size_t size = after_dot ? 0 : float_size(source);
    if (size == 0) return scan_integer(source, token);
    token.kind = TokenKind::kFloat;
    token.real = std::strtod(without_underscores(source.substr(0, size)).c_str(), nullptr);
    return size;
  }
  if (first == '\'' || first == '"') return scan_string(source, token);
  if (is_identifier(first_code_point(source), true)) return scan_name(source, token);
  for (const std::string_view sign : kOperators) {
    if (!source.starts_with(sign)) continue;
    token.kind = TokenKind::kOperator;
    token.text = sign;
    return sign.size();
  }
  const Utf8Front front = scan_utf8(source);
  fail_at(token.line, "found the character {}, which begins no token", source.substr(0, front.size));
}

}  // namespace mkrt::jinja
