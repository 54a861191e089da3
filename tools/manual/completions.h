// Shells complete a program's command line by scripts, made from its table of options. Each function returns
// a script for one shell. The scripts complete commands, flags, names of values, files and folders, and call
// no program.
#pragma once

#include "tools/manual/option_table.h"

namespace mkc {

std::string bash_completion(const OptionTable& table);
std::string zsh_completion(const OptionTable& table);
std::string fish_completion(const OptionTable& table);

// Returns the names of the shells: bash, zsh, fish.
std::vector<std::string> shell_names();

// Returns the script for one of shell_names().
std::string completion_for(const std::string& shell, const OptionTable& table);

}  // namespace mkc
