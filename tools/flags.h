// Flags of the command line whose errors name the flag, what was found and what is expected.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

namespace mkc {

// The value of a flag, from the whole of `text`. Throws CLI::ValidationError.
template <class T>
T parse_flag(const std::string& flag, const std::string& text, T min, T max) {
  T value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc() && end == text.data() + text.size() && value >= min && value <= max) return value;
  throw CLI::ValidationError(flag, fmt::format("found {}, expected {} to {}", text, min, max));
}

// A flag with a whole number within bounds. `to` is a T or an std::optional<T>.
template <class T, class To>
CLI::Option* add_integer(CLI::App& command, const std::string& flag, To& to, T min, T max,
                         const std::string& help) {
  return command.add_option_function<std::string>(
      flag, [&to, flag, min, max](const std::string& text) { to = parse_flag<T>(flag, text, min, max); },
      help);
}

// A flag with a number; its bounds are looked at later.
inline CLI::Option* add_number(CLI::App& command, const std::string& flag, std::optional<float>& to,
                               const std::string& help) {
  return command.add_option_function<std::string>(
      flag,
      [&to, flag](const std::string& text) {
        float value = 0;
        const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (end != text.data() + text.size() || fault == std::errc::invalid_argument)
          throw CLI::ValidationError(flag, fmt::format("found {}, expected a number", text));
        to = fault == std::errc::result_out_of_range ? HUGE_VALF : value;
      },
      help);
}

// Refuses command lines that name no command, or a flag that the command does not have. The message has the
// nearest name.
void check_names(const CLI::App& app, int argc, char** argv);

}  // namespace mkc
