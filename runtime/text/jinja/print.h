// Values become text as by str() and repr() of Python.
#pragma once

#include <string>

#include "runtime/text/jinja/arena.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Appends what str() makes of the value. Faults: the text would hold the address of an object, as that of a
// function does; more than kMaxOutputBytes.
void append_str(Arena& arena, const Value& value, std::string& text);
void append_repr(Arena& arena, const Value& value, std::string& text);

std::string to_str(Arena& arena, const Value& value);
std::string to_repr(Arena& arena, const Value& value);

// Returns the value itself if it is text, and else its str() as text.
Value soft_str(Arena& arena, const Value& value);

// Returns the shortest text that reads back as the number, in the form of Python's repr().
std::string float_repr(double number);

// Returns text in quotes, with escapes where a character cannot be printed.
std::string text_repr(std::string_view text);

}  // namespace mkrt::jinja
