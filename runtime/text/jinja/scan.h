// Tags of a template hold single tokens: names, numbers, strings and operators.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/text/jinja/lexer.h"

namespace mkrt::jinja {

// Sets the token at the front of `source`, which is not empty, and returns its bytes. No float begins behind
// a dot. Faults: a character outside the language, a bad escape, an integer beyond 64 bits.
size_t scan_token(std::string_view source, bool after_dot, Token& token);

// Returns the value of a string literal's contents. Escapes are those of Python. Faults: a bad escape.
std::string unescape(std::string_view contents, uint32_t line);

}  // namespace mkrt::jinja
