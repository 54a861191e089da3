// Patterns that ignore letter case are checked for what Oniguruma and PCRE2 match differently.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace mkrt {

// CaseCheck goes through the tokens of a pattern: escapes, beginnings of groups, and single characters.
//
// Inside (?i: Oniguruma lets a character with a case folding of several characters, such as ß, match these
// characters, and the other way round. PCRE2 does neither. In a class there the two give properties such as
// \p{Lu} different cases.
class CaseCheck {
 public:
  // Errors: the token, or the characters that end with it, would be matched differently.
  Status next(std::string_view token, size_t at, bool in_class);

 private:
  Status escape(std::string_view token, size_t at, bool in_class);
  Status literal(char32_t c, std::string_view token, size_t at, bool in_class);
  Status class_range(char32_t first, char32_t last, std::string_view token, size_t at) const;
  Status sequence(char32_t c, size_t at);
  bool ignores_case() const { return !groups_.empty() && groups_.back(); }

  std::vector<bool> groups_;            // whether each open group ignores case
  std::vector<std::u32string> folds_;   // all case foldings of several characters, once a group needs them
  std::u32string folded_;               // literals that follow each other, folded
  std::optional<char32_t> last_;        // the literal before, in a class
  std::optional<char32_t> range_from_;  // the first character of a range whose last one is next
};

}  // namespace mkrt
