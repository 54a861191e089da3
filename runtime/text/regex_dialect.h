// Patterns of tokenizer.json are written for Oniguruma (Ruby syntax); we match with PCRE2.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace mkrt {

// The same pattern for PCRE2. Only what is known to mean the same in both, or can be rewritten so that it
// does, is let through: literals, classes, \p{…}, \s, \d, groups without options inside, look-around,
// quantifiers. Anything else is an error that names it and its byte offset. ^ and $ are those of lines:
// compile with PCRE2_MULTILINE.
Result<std::string> to_pcre2(std::string_view pattern);

}  // namespace mkrt
