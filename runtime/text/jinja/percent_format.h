// The operator % formats text as Python's does.
#pragma once

#include "runtime/text/jinja/arena.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Returns the text with a value in the place of each conversion such as %s. A tuple is a list of values, and
// a dict holds those of %(name)s. Faults: values and conversions do not go together.
Value percent_format(Arena& arena, const Text& format, const Value& values);

}  // namespace mkrt::jinja
