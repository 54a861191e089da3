// Patterns of tokenizer.json are written for Oniguruma (Ruby syntax) and translated to PCRE2.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace mkrt {

// Returns the equivalent pattern for PCRE2. Supported are literals, classes, \p{…}, \s, \d, groups without
// options inside, look-around and quantifiers. Such constructs mean the same in both dialects or can be
// rewritten. regex_case.h says what is refused inside (?i:.
//
// Errors name an unsupported construct and its byte offset. ^ and $ match at lines, so the result must be
// compiled with PCRE2_MULTILINE.
Result<std::string> to_pcre2(std::string_view pattern);

}  // namespace mkrt
