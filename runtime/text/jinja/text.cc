#include "runtime/text/jinja/text.h"

#include <utf8proc.h>

#include <algorithm>

#include "runtime/text/jinja/special_case.h"
#include "runtime/text/utf8.h"

namespace mkrt::jinja {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

char32_t simple_upper(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t simple_lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

void append_upper(char32_t c, std::string& text) {
  if (const SpecialCase* special = find_special_case(c))
    text += special->upper;
  else
    append_utf8(simple_upper(c), text);
}

void append_title(char32_t c, std::string& text) {
  if (const SpecialCase* special = find_special_case(c))
    text += special->title;
  else
    append_utf8(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))), text);
}

// Returns whether the rules of letter case look past the character (Unicode 15, section 3.13).
bool is_case_ignorable(char32_t c) {
  constexpr std::u32string_view kMidLetters =
      U"'.:^`\u00a8\u00ad\u00af\u00b4\u00b7\u00b8\u2018\u2019\u2024\u2027";
  if (kMidLetters.find(c) != kMidLetters.npos) return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return false;
  }
}

constexpr char32_t kSigma = 0x3A3, kFinalSigma = 0x3C2, kDottedI = 0x130;

bool is_final_sigma(std::u32string_view text, size_t at) {
  size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t behind = at + 1;
  while (behind < text.size() && is_case_ignorable(text[behind])) ++behind;
  return behind == text.size() || !is_cased(text[behind]);
}

void append_lower(std::u32string_view text, size_t at, std::string& result) {
  if (text[at] == kSigma && is_final_sigma(text, at))
    append_utf8(kFinalSigma, result);
  else if (text[at] == kDottedI)
    result += "i\u0307";
  else
    append_utf8(simple_lower(text[at]), result);
}

}  // namespace

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

size_t prefix_bytes(std::string_view text, size_t count) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;
    if (count-- == 0) break;
  }
  return at;
}

std::u32string decode(std::string_view text) {
  std::u32string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size(); at += scan_utf8(text.substr(at)).size)
    result += first_code_point(text.substr(at));
  return result;
}

std::string encode(std::u32string_view text) {
  std::string result;
  for (const char32_t c : text) append_utf8(c, result);
  return result;
}

bool is_space(char32_t c) {
  if (c <= 0x20) return (c >= 0x09 && c <= 0x0D) || c >= 0x1C;
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

int decimal_digit(char32_t c) {
  if (category(c) != UTF8PROC_CATEGORY_ND) return -1;
  // The digits of a script, 0 to 9, follow each other. A run of digits has those of one or more scripts.
  int place = 0;
  while (category(c - 1) == UTF8PROC_CATEGORY_ND) {
    --c;
    ++place;
  }
  return place % 10;
}

bool is_word(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return c == '_' || (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO) ||
         (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO);
}

bool is_identifier(char32_t c, bool begins) {
  if (c < 0x80) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return is_letter || (!begins && c >= '0' && c <= '9');
  }
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL:
      return true;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC:
      return !begins;
    default:
      return false;
  }
}

size_t leading_spaces(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && is_space(first_code_point(text.substr(at))))
    at += scan_utf8(text.substr(at)).size;
  return at;
}

size_t trailing_spaces(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t at = end - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if (!is_space(first_code_point(text.substr(at)))) break;
    end = at;
  }
  return text.size() - end;
}

std::string_view strip(std::string_view text) {
  text.remove_prefix(leading_spaces(text));
  text.remove_suffix(trailing_spaces(text));
  return text;
}

bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT;
}

bool is_upper(char32_t c) {
  const utf8proc_category_t kind = category(c);
  const bool is_sign = kind == UTF8PROC_CATEGORY_SO || kind == UTF8PROC_CATEGORY_NL;
  return kind == UTF8PROC_CATEGORY_LU || (is_sign && simple_lower(c) != c);
}

bool is_lower(char32_t c) {
  const utf8proc_category_t kind = category(c);
  const bool is_sign = kind == UTF8PROC_CATEGORY_SO || kind == UTF8PROC_CATEGORY_NL;
  return kind == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA || (is_sign && simple_upper(c) != c);
}

std::string to_upper(std::string_view text) {
  std::string result;
  for (const char32_t c : decode(text)) append_upper(c, result);
  return result;
}

std::string to_lower(std::string_view text) {
  const std::u32string all = decode(text);
  std::string result;
  for (size_t i = 0; i < all.size(); ++i) append_lower(all, i, result);
  return result;
}

std::string case_fold(std::string_view text) {
  std::string result;
  for (const char32_t c : decode(text)) {
    utf8proc_int32_t folded[4];
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded, 4, UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < count; ++i) append_utf8(static_cast<char32_t>(folded[i]), result);
  }
  return result;
}

std::string capitalize(std::string_view text) {
  const std::u32string all = decode(text);
  std::string result;
  for (size_t i = 0; i < all.size(); ++i)
    i == 0 ? append_title(all[0], result) : append_lower(all, i, result);
  return result;
}

std::string title_case(std::string_view text) {
  const std::u32string all = decode(text);
  std::string result;
  for (size_t i = 0; i < all.size(); ++i)
    i > 0 && is_cased(all[i - 1]) ? append_lower(all, i, result) : append_title(all[i], result);
  return result;
}

std::string swap_case(std::string_view text) {
  const std::u32string all = decode(text);
  std::string result;
  for (size_t i = 0; i < all.size(); ++i) {
    if (is_upper(all[i]))
      append_lower(all, i, result);
    else if (is_lower(all[i]))
      append_upper(all[i], result);
    else
      append_utf8(all[i], result);
  }
  return result;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_breaks) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    size_t size = scan_utf8(text.substr(at)).size;
    const bool ends = is_line_break(first_code_point(text.substr(at)));
    if (ends && text.substr(at).starts_with("\r\n")) size = 2;
    if (ends) lines.push_back(text.substr(begin, at + (keep_breaks ? size : 0) - begin));
    at += size;
    if (ends) begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace mkrt::jinja
