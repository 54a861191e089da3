#include "runtime/text/jinja/parse_number.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/text.h"

namespace mkrt::jinja {
namespace {

// Returns the text as Python reads numbers from it, without white space around it. ASCII digits stand for
// those of other scripts, and '?' for other characters beyond ASCII.
std::string ascii_number(std::string_view text) {
  constexpr const char* kSpaces = " \t\n\v\f\r";
  std::string result;
  for (const char32_t c : decode(text)) {
    const int digit = decimal_digit(c);
    if (c < 0x80)
      result += static_cast<char>(c);
    else
      result += digit >= 0 ? static_cast<char>('0' + digit) : is_space(c) ? ' ' : '?';
  }
  result.erase(result.find_last_not_of(kSpaces) + 1);
  return result.erase(0, result.find_first_not_of(kSpaces));
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view given, int64_t base) {
  const std::string ascii = ascii_number(given);
  std::string_view text = ascii;
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  bool has_prefix = false;
  for (const auto& [letter, radix] : {std::pair{'x', 16}, {'o', 8}, {'b', 2}}) {
    if (text.size() < 2 || text[0] != '0' || (text[1] | 0x20) != letter || (base != 0 && base != radix))
      continue;
    base = radix;
    has_prefix = true;
    text.remove_prefix(text.size() > 2 && text[2] == '_' ? 3 : 2);
    break;
  }
  const bool is_decimal_literal = base == 0;
  if (base == 0) base = 10;
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_separator = text[i] == '_' && i > 0 && text[i - 1] != '_' && i + 1 < text.size();
    if (!is_separator) digits += text[i];
  }
  if (digits.empty() || digits[0] == '-') return std::nullopt;
  if (is_decimal_literal && !has_prefix && digits[0] == '0' && digits.find_first_not_of('0') != digits.npos)
    return std::nullopt;
  if (is_negative) digits.insert(0, "-");
  int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, code] = std::from_chars(digits.data(), end, number, static_cast<int>(base));
  if (code == std::errc::result_out_of_range && stop == end)
    fail("the integer {} has more than 64 bits", digits);
  if (code != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::optional<double> parse_float(std::string_view given) {
  const std::string text = ascii_number(given);
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) && is_digit(text[i + 1]);
    if (text[i] != '_' || !between) digits += text[i];
  }
  std::string_view number = digits;
  const bool is_negative = number.starts_with('-');
  if (is_negative || number.starts_with('+')) number.remove_prefix(1);
  std::string lower(number);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  const double sign = is_negative ? -1 : 1;
  if (lower == "inf" || lower == "infinity") return sign * HUGE_VAL;
  if (lower == "nan") return std::nan("");
  if (lower.empty() || lower.find_first_not_of("0123456789.e+-") != lower.npos) return std::nullopt;
  if (!is_digit(lower[0]) && lower[0] != '.') return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(lower.c_str(), &end);
  return *end == '\0' && end != lower.c_str() ? std::optional(sign * value) : std::nullopt;
}

}  // namespace mkrt::jinja
