// Parsing a command line by CLI11, with `--option=` as an empty value.
#pragma once

#include <CLI/CLI.hpp>
#include <string_view>

namespace mkc {

// Tells whether an argument is `--option=`.
bool has_empty_value(std::string_view argument);

// Parses the arguments, with `--option=` as an empty value. CLI11 2.1 alone would take the next argument as
// the value. Throws the exceptions of CLI::App::parse().
void parse_arguments(CLI::App& app, int argc, const char* const* argv);

}  // namespace mkc
