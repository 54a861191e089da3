// A for statement has the variable `loop`.
#pragma once

#include "runtime/text/jinja/arena.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Moves to the next element and returns whether there is one.
bool advance_loop(Loop& loop);

// Returns the number of all elements. The elements of an iterator are read early for it.
int64_t loop_length(Loop& loop);

// Returns an attribute such as index, or a missing value for an unknown name.
Value loop_attribute(Arena& arena, Loop& loop, std::string_view name);

}  // namespace mkrt::jinja
