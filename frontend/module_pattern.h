// Patterns for the names of modules, as quantization_config writes them.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/node.h"

namespace mkc {

// ModulePattern names modules as quantization_config does.
struct ModulePattern {
  std::string name;                   // of a module, of its end, or of what it lies in; `*` is any text
  std::optional<std::regex> regex{};  // of "re:…", which a module begins with
};

// Returns the pattern of a text. Error: a bad regular expression; the message begins with the text.
Result<ModulePattern> parse_pattern(const std::string& text);

// Reads a list of patterns; null is none. Errors: no list of strings, a bad regular expression.
Result<std::vector<ModulePattern>> read_patterns(const Document& config, const Node& list);

// Tells whether the pattern names the module.
bool matches(const ModulePattern& pattern, const std::string& module);
// Tells whether the text fits the pattern. `*` stands for any text.
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace mkc
