// Truth, equality, order and membership are those of Python.
#pragma once

#include "runtime/text/jinja/arena.h"
#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

bool is_true(const Value& value);

bool equals(Arena& arena, const Value& left, const Value& right);

// Returns whether left comes before right. Faults: values of types without an order between them.
bool less(Arena& arena, const Value& left, const Value& right);

// Returns whether the container holds the item. Faults: not a container; something else than text in text.
bool contains(Arena& arena, const Value& container, const Value& item);

// Returns the result of a comparison operator.
bool compare(Arena& arena, Operator op, const Value& left, const Value& right);

}  // namespace mkrt::jinja
