#include "runtime/text/regex_dialect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/text/regex_case.h"
#include "runtime/text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace mkrt {
namespace {

Error unsupported(std::string_view what, size_t offset, std::string_view why) {
  return Error{fmt::format("unsupported {} at byte {} of the pattern: {}", what, offset, why)};
}

bool is_ascii_punctuation(char c) {
  const bool is_alphanumeric = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  return c >= ' ' && c <= '~' && !is_alphanumeric;
}

// Tells whether PCRE2 knows a script of this name. PCRE2 before 10.40 knows no prefix sc:, and needs none.
bool is_script(std::string_view name) {
  const std::string pattern = fmt::format("\\p{{sc:{}}}", name);
  int error = 0;
  size_t offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

// Returns PCRE2's form of \p{NAME} or \P{NAME}, with ^ before a name that is negated. PCRE2's \p{Han} has
// the characters that Han shares with other scripts, too, such as U+3002; Oniguruma's has not.
std::string translate_property(std::string_view escape) {
  const std::string_view inside = escape.substr(3, escape.size() - 4);
  const bool caret = inside.starts_with('^');
  const std::string_view name = inside.substr(caret ? 1 : 0);
  if (!is_script(name)) return std::string(escape);
  return fmt::format("\\{}{{sc:{}}}", (escape[1] == 'P') != caret ? 'P' : 'p', name);
}

// Appends PCRE2's form of the escape at `at`, and moves `at` past it.
Status translate_escape(std::string_view pattern, size_t& at, std::string& out) {
  const std::string_view rest = pattern.substr(at);
  if (rest.size() == 1) return unsupported("\\", at, "nothing follows it");
  const char escaped = rest[1];
  size_t size = 2;
  if (escaped == 's' || escaped == 'S') {
    // PCRE2's \s includes U+180E, which is no white space in Unicode.
    out += escaped == 's' ? R"(\p{White_Space})" : R"(\P{White_Space})";
  } else if (rest.starts_with("\\p{") || rest.starts_with("\\P{")) {
    const size_t brace = rest.find('}');
    if (brace == std::string_view::npos) return unsupported(rest.substr(0, 3), at, "it has no }");
    size = brace + 1;
    out += translate_property(rest.substr(0, size));
  } else if (is_ascii_punctuation(escaped) ||
             std::string_view("dDrntf").find(escaped) != std::string_view::npos) {
    out += rest.substr(0, size);
  } else {
    const size_t shown = 1 + scan_utf8(rest.substr(1)).size;
    return unsupported(rest.substr(0, shown), at,
                       R"(supported escapes: \p{} \P{} \s \S \d \D \r \n \t \f and punctuation)");
  }
  at += size;
  return {};
}

// Returns the bytes that begin a group behind an opening parenthesis with ?, or 0 for any other text.
size_t group_size(std::string_view rest) {
  constexpr std::array<std::string_view, 7> kGroups = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
  const auto* found = std::find_if(kGroups.begin(), kGroups.end(),
                                   [&](std::string_view group) { return rest.starts_with(group); });
  return found == kGroups.end() ? 0 : found->size();
}

// Returns the bytes of a quantifier {n}, or 0 for any other text.
size_t fixed_count_size(std::string_view rest) {
  if (!rest.starts_with('{')) return 0;
  const size_t end = rest.find_first_not_of("0123456789", 1);
  return end != std::string_view::npos && end > 1 && rest[end] == '}' ? end + 1 : 0;
}

// Refuses groups and quantifiers, outside of a class, that the two dialects read differently.
Status check_outside_class(std::string_view rest, size_t at) {
  if (rest.starts_with("(*")) return unsupported("(*", at, "no verbs");
  if (rest.starts_with("(?") && group_size(rest) == 0)
    return unsupported("(?", at, "supported groups: ( (?: (?i: (?= (?! (?<= (?<! (?>");
  if (const size_t size = fixed_count_size(rest); size != 0 && rest.substr(size).starts_with("?"))
    return unsupported(rest.substr(0, size + 1), at, "it is optional in one dialect only");
  if (rest.starts_with("{,")) return unsupported("{,", at, "write the lower bound");
  if (rest.starts_with("}+")) return unsupported("}+", at, "it is possessive in one dialect only");
  if (rest.starts_with("[]") || rest.starts_with("[^]")) return unsupported("[]", at, "write \\] in a class");
  return {};
}

// Refuses set operations and nested classes, which only Oniguruma has.
Status check_inside_class(std::string_view rest, size_t at) {
  if (rest.starts_with("&&")) return unsupported("&&", at, "no intersection of classes");
  if (rest.starts_with("[")) return unsupported("[", at, "no class inside a class");
  return {};
}

}  // namespace

Result<std::string> to_pcre2(std::string_view pattern) {
  std::string out;
  CaseCheck letter_case;
  bool in_class = false;
  size_t at = 0;
  while (at < pattern.size()) {
    const std::string_view rest = pattern.substr(at);
    const size_t begin = at;
    if (rest[0] == '\\') {
      const Status status = translate_escape(pattern, at, out);
      if (!status.ok()) return status.error();
    } else {
      const Status status = in_class ? check_inside_class(rest, at) : check_outside_class(rest, at);
      if (!status.ok()) return status.error();
      const size_t group = in_class ? 0 : group_size(rest);
      at += group != 0 ? group : scan_utf8(rest).size;
      out += pattern.substr(begin, at - begin);
    }
    const Status status = letter_case.next(pattern.substr(begin, at - begin), begin, in_class);
    if (!status.ok()) return status.error();
    if (rest[0] == '[') in_class = true;
    if (rest[0] == ']') in_class = false;
  }
  return out;
}

}  // namespace mkrt
