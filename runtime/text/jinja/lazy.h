// Some iterators begin their work with their first element. Paths lead to attributes of attributes.
#pragma once

#include <functional>

#include "runtime/text/jinja/arena.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Returns an iterator over the elements of what `begin` returns. `begin` runs when the first element is
// wanted.
Value lazy(Arena& arena, std::function<Advance()> begin);

// Returns the item at the end of a path such as "address.0.city", or at an integer key. None is the value
// itself.
Value get_path(Arena& arena, const Value& value, const Value& path);

// Returns text in lower case, and any other value as it is.
Value ignore_case(Arena& arena, const Value& value);

}  // namespace mkrt::jinja
