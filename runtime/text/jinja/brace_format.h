// The method format formats text as Python's str.format does.
#pragma once

#include <string>

#include "runtime/text/jinja/call.h"

namespace mkrt::jinja {

// Returns the text with a value of the call in the place of each field such as {name:>4}. Faults: a bad
// field, or one without a value.
std::string brace_format(Call& call, std::string_view format);

}  // namespace mkrt::jinja
