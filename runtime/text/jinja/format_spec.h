// Values are written in fields of a given width, precision and type, as Python's format() writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

struct FormatSpec {
  std::string fill = " ";
  char align = '\0';  // '<', '>', '^', '=', or '\0' for that of the type
  char sign = '-';    // '-', '+' or ' '
  bool alternate = false;
  char grouping = '\0';  // ',' or '_' between groups of digits
  int64_t width = 0;
  std::optional<int64_t> precision = {};
  char type = '\0';
};

// Reads what follows the colon of a field. Faults: not such a text; numbers beyond kMaxFieldWidth.
FormatSpec parse_format_spec(std::string_view text);

inline constexpr int64_t kMaxFieldWidth = 1'000'000;

// Returns a value in its field. Faults: the type does not go with the value.
std::string format_value(const Value& value, const FormatSpec& spec);

// The three functions format a value of their type.
std::string format_text(std::string_view text, const FormatSpec& spec);
std::string format_integer(int64_t number, const FormatSpec& spec);
std::string format_float(double number, const FormatSpec& spec);

}  // namespace mkrt::jinja
