// Values are iterated over.
#pragma once

#include <vector>

#include "runtime/text/jinja/arena.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Returns a function that goes through the elements: keys of a dict, characters of text. Undefined has none.
// Each element is a step. Faults: the value has no elements.
Advance iterate(Arena& arena, const Value& value);

// Returns all elements. Faults as iterate().
std::vector<Value> collect(Arena& arena, const Value& value);

// Returns the number of elements, or -1 where the value has no length.
int64_t length_of(const Value& value);

// Returns an iterator value that takes a level of recursion whenever it advances.
Value make_iterator(Arena& arena, Advance advance);

// Returns the elements backwards as an iterator value. Faults: the value has no order.
Value reversed(Arena& arena, const Value& value);

}  // namespace mkrt::jinja
