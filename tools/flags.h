// These helpers add flags to a command line. Errors name the flag, the value found and the values expected.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace mkc {

// Returns the value of a flag, parsed from all of `text`. Throws CLI::ValidationError if `text` is no number
// from min to max.
template <class T>
T parse_flag(const std::string& flag, const std::string& text, T min, T max) {
  T value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc() && end == text.data() + text.size() && value >= min && value <= max) return value;
  const bool any = std::is_signed_v<T> && min == std::numeric_limits<T>::min() &&
                   max == std::numeric_limits<T>::max() && fault != std::errc::result_out_of_range;
  throw CLI::ValidationError(flag, any ? fmt::format("found {}, expected a whole number", text)
                                       : fmt::format("found {}, expected {} to {}", text, min, max));
}

// Adds a flag that takes an integer from min to max. `to` is a T or a std::optional<T>.
template <class T, class To>
CLI::Option* add_integer(CLI::App& command, const std::string& flag, To& to, T min, T max,
                         const std::string& help) {
  return command
      .add_option_function<std::string>(
          flag, [&to, flag, min, max](const std::string& text) { to = parse_flag<T>(flag, text, min, max); },
          help)
      ->type_name("INT");
}

// Adds a flag that takes a number. The caller checks the bounds later. A number beyond the range of f32
// becomes infinity, and one that is too close to 0 is an error.
inline CLI::Option* add_number(CLI::App& command, const std::string& flag, std::optional<float>& to,
                               const std::string& help) {
  return command
      .add_option_function<std::string>(
          flag,
          [&to, flag](const std::string& text) {
            float value = 0;
            const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (end != text.data() + text.size() || fault == std::errc::invalid_argument)
              throw CLI::ValidationError(flag, fmt::format("found {}, expected a number", text));
            if (fault == std::errc::result_out_of_range) value = std::strtof(text.c_str(), nullptr);
            if (fault == std::errc::result_out_of_range && std::isfinite(value))
              throw CLI::ValidationError(
                  flag, fmt::format("found {}, too small for f32, expected 0 or at least {}", text,
                                    std::numeric_limits<float>::denorm_min()));
            to = value;
          },
          help)
      ->type_name("NUMBER");
}

// Returns a check that a value is one of these names. Help, manual and completions list the names.
CLI::Validator one_of(const std::vector<std::string>& names);

// Throws CLI::ParseError for an empty command line, for unknown commands and flags, and for `--option=` of an
// option that names something. The message suggests the nearest name.
void check_names(const CLI::App& app, int argc, char** argv);

// Throws CLI::ParseError for an empty value of an option that names something, such as a file. Text may be
// empty.
void check_values(const CLI::App& command);

}  // namespace mkc
