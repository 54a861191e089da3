// Numbers of templates follow Python's arithmetic. Integers have 64 bits, and what exceeds them is an error.
#pragma once

#include <cstdint>

#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Returns the result of an arithmetic operator on numbers. Faults: division by zero, a result beyond 64 bits.
Value of_numbers(Operator op, const Value& left, const Value& right);

Value negative(const Value& value);
Value positive(const Value& value);
Value absolute(const Value& value);

// Returns the integer part. Faults: the number is not finite, or has more than 64 bits.
int64_t truncate(double number);

// Returns the number rounded to decimal digits, half to even, as round() does.
Value round_number(const Value& value, int64_t digits);

}  // namespace mkrt::jinja
