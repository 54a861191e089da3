#include "runtime/text/jinja/format_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <vector>

#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/print.h"
#include "runtime/text/jinja/text.h"
#include "runtime/text/utf8.h"

namespace mkrt::jinja {
namespace {

constexpr std::string_view kAligns = "<>=^";

int64_t read_number(std::string_view text, size_t& at) {
  int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  if (code != std::errc() || number > kMaxFieldWidth)
    fail("the format {} has no number up to {} where one is expected", text_repr(text), kMaxFieldWidth);
  at = static_cast<size_t>(end - text.data());
  return number;
}

// Puts the fill around a text whose first `signs` bytes are its sign and its prefix.
std::string pad(std::string text, size_t signs, const FormatSpec& spec, char natural_align) {
  const auto length = static_cast<int64_t>(count_code_points(text));
  if (length >= spec.width) return text;
  const int64_t missing = spec.width - length;
  const char align = spec.align != '\0' ? spec.align : natural_align;
  const int64_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string left, right;
  for (int64_t i = 0; i < before; ++i) left += spec.fill;
  for (int64_t i = before; i < missing; ++i) right += spec.fill;
  if (align == '=') return text.substr(0, signs) + left + text.substr(signs);
  return left + text + right;
}

// Puts the grouping character between groups of digits from the end of the integer part on.
std::string group(std::string digits, char grouping, size_t size) {
  if (grouping == '\0') return digits;
  size_t end = 0;
  while (end < digits.size() && (is_digit(digits[end]) || size == 4)) ++end;
  for (size_t at = end; at > size; at -= size) digits.insert(at - size, 1, grouping);
  return digits;
}

std::string sign_text(bool is_negative, char sign) {
  return is_negative ? "-" : sign == '-' ? "" : std::string(1, sign);
}

// Returns the number with its sign, padded. Zeros that fill a field are grouped, too.
std::string finish_number(const std::string& sign, std::string digits, const FormatSpec& spec,
                          size_t group_size) {
  digits = group(std::move(digits), spec.grouping, group_size);
  if (spec.grouping != '\0' && spec.fill == "0" && (spec.align == '=' || spec.align == '\0') &&
      static_cast<int64_t>(sign.size() + digits.size()) < spec.width)
    fail("unsupported: digits in groups that fill a field with zeros");
  const size_t signs = sign.size();
  return pad(sign + digits, signs, spec, '>');
}

std::string print_float(double number, char type, int precision, bool alternate) {
  const char format[] = {
      '%', alternate ? '#' : '.', alternate ? '.' : '*', alternate ? '*' : type, alternate ? type : '\0',
      '\0'};
  const int size = std::snprintf(nullptr, 0, format, precision, number);
  std::vector<char> text(static_cast<size_t>(size) + 1);
  std::snprintf(text.data(), text.size(), format, precision, number);
  return {text.data(), static_cast<size_t>(size)};
}

std::string float_digits(double number, const FormatSpec& spec) {
  const char lower = static_cast<char>(spec.type | 0x20);
  if (!std::isfinite(number)) {
    const bool is_upper = spec.type >= 'A' && spec.type <= 'Z';
    return std::string(std::isnan(number) ? (is_upper ? "NAN" : "nan") : (is_upper ? "INF" : "inf")) +
           (spec.type == '%' ? "%" : "");
  }
  if (spec.type == '\0' && spec.precision) fail("unsupported: a float with a precision but no type");
  if (spec.type == '\0') return float_repr(number);
  const int precision = static_cast<int>(spec.precision.value_or(6));
  if (spec.type == '%') return print_float(number * 100, 'f', precision, spec.alternate) + "%";
  if (lower == 'e' || lower == 'f') return print_float(number, spec.type, precision, spec.alternate);
  if (lower == 'g') return print_float(number, spec.type, std::max(precision, 1), spec.alternate);
  fail("the format type {} does not go with a float", spec.type);
}

std::string character(int64_t number, const FormatSpec& spec) {
  if (number < 0 || number > 0x10FFFF || (number >= 0xD800 && number < 0xE000))
    fail("the format type c needs the number of a character, found {}", number);
  if (spec.sign != '-' || spec.alternate) fail("the format type c has neither a sign nor another form");
  std::string one;
  append_utf8(static_cast<char32_t>(number), one);
  return pad(std::move(one), 0, spec, '<');
}

}  // namespace

FormatSpec parse_format_spec(std::string_view text) {
  FormatSpec spec;
  size_t at = 0;
  const size_t first = text.empty() ? 0 : scan_utf8(text).size;
  if (text.size() > first && kAligns.find(text[first]) != kAligns.npos) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && kAligns.find(text[0]) != kAligns.npos) {
    spec.align = text[at++];
  }
  const auto sees = [&](std::string_view any) { return at < text.size() && any.find(text[at]) != any.npos; };
  if (sees("+- ")) spec.sign = text[at++];
  if (sees("#")) spec.alternate = at++ < text.size();
  if (sees("0")) {
    if (at == 0 || spec.align == '\0') spec.fill = "0";
    ++at;
  }
  if (sees("123456789")) spec.width = read_number(text, at);
  if (sees(",_")) spec.grouping = text[at++];
  if (sees(".")) spec.precision = read_number(text, ++at);
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) fail("the format {} is not valid", text_repr(text));
  return spec;
}

std::string format_text(std::string_view text, const FormatSpec& spec) {
  if (spec.type != '\0' && spec.type != 's') fail("the format type {} does not go with text", spec.type);
  if (spec.sign != '-' || spec.alternate || spec.grouping != '\0' || spec.align == '=')
    fail("the format has a sign, digits in groups or an alignment that do not go with text");
  if (spec.precision) text = text.substr(0, prefix_bytes(text, static_cast<size_t>(*spec.precision)));
  return pad(std::string(text), 0, spec, '<');
}

std::string format_integer(int64_t number, const FormatSpec& spec) {
  const auto magnitude = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  std::string sign = sign_text(number < 0, spec.sign);
  FormatSpec padded = spec;
  if (spec.fill == "0" && spec.align == '\0') padded.align = '=';
  if (spec.precision && std::string_view("eEfFgG%").find(spec.type) == std::string_view::npos)
    fail("a precision does not go with an integer");
  switch (spec.type) {
    case '\0':
    case 'd':
      return finish_number(sign, fmt::format("{}", magnitude), padded, 3);
    case 'x':
      return finish_number(sign + (spec.alternate ? "0x" : ""), fmt::format("{:x}", magnitude), padded, 4);
    case 'X':
      return finish_number(sign + (spec.alternate ? "0X" : ""), fmt::format("{:X}", magnitude), padded, 4);
    case 'o':
      return finish_number(sign + (spec.alternate ? "0o" : ""), fmt::format("{:o}", magnitude), padded, 4);
    case 'b':
      return finish_number(sign + (spec.alternate ? "0b" : ""), fmt::format("{:b}", magnitude), padded, 4);
    case 'c':
      return character(number, spec);
    case 'n':
    case 's':
      fail("the format type {} does not go with an integer", spec.type);
    default:
      return format_float(static_cast<double>(number), spec);
  }
}

std::string format_float(double number, const FormatSpec& spec) {
  const bool is_negative = std::signbit(number) && !std::isnan(number);
  FormatSpec padded = spec;
  if (spec.fill == "0" && spec.align == '\0') padded.align = '=';
  return finish_number(sign_text(is_negative, spec.sign), float_digits(std::abs(number), spec), padded, 3);
}

std::string format_value(const Value& value, const FormatSpec& spec) {
  if (value.is_text()) return format_text(value.text().bytes, spec);
  if (value.is_integer()) return format_integer(value.as_integer(), spec);
  if (value.is(Value::Kind::kFloat)) return format_float(value.as_real(), spec);
  fail("{} has no format of its own", value.described());
}

}  // namespace mkrt::jinja
