// Arithmetic operators take values of any type.
#pragma once

#include <string>
#include <string_view>

#include "runtime/text/jinja/arena.h"
#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Returns the result of an operator on numbers, text or sequences. Faults: the types do not go together;
// those of number.h; a result that is too large.
Value arithmetic(Arena& arena, Operator op, const Value& left, const Value& right);

// Returns text with entities for the characters that are special in HTML.
std::string escape_html(std::string_view text);

}  // namespace mkrt::jinja
