// Numbers are read from text as Python's int() and float() read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mkrt::jinja {

// The functions return nothing for text that is no number. White space around it and single underscores
// between digits are allowed. Digits may be those of any script. Base 0 takes it from a prefix such as 0x.
// Faults: the integer has more than 64 bits.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base);
std::optional<double> parse_float(std::string_view text);

}  // namespace mkrt::jinja
