// Tests stand behind `is`, such as `value is defined`.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/text/jinja/call.h"

namespace mkrt::jinja {

using Predicate = bool (*)(Call&);

// Returns the code of a test, whose first positional argument is the tested value. Faults, at the line: there
// is no such test.
Predicate find_predicate(std::string_view name, uint32_t line);

}  // namespace mkrt::jinja
