// quantization_config names modules by patterns.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/node.h"
#include "runtime/text/regex.h"

namespace mkc {

// ModulePattern names modules as quantization_config does.
struct ModulePattern {
  std::string name;    // of a module, of its end, or of what it lies in; `*` is any text
  bool exact = false;  // the name is that of a module alone
  std::shared_ptr<const mkrt::Regex> regex{};  // of "re:…", which a module begins with
  Place place{};                               // of the list in the config
  std::string list{};                          // the list's key
};

// Returns the pattern of a text. Error: a bad regular expression; the message begins with the text.
Result<ModulePattern> parse_pattern(const std::string& text);

// Reads a list of patterns; null is none. Errors: no list of strings, a bad regular expression.
Result<std::vector<ModulePattern>> read_patterns(const Document& config, const Node& list);

// Tells whether the pattern names the module. Error: a regular expression needs more steps than a match may
// use.
Result<bool> matches(const ModulePattern& pattern, const std::string& module);

// Tells the same of a pattern of the config, whose list is the place of the error.
Result<bool> matches(const Document& config, const ModulePattern& pattern, const std::string& module);

// Tells whether one of the patterns names the module. Errors: those of matches().
Result<bool> matches_any(const Document& config, const std::vector<ModulePattern>& patterns,
                         const std::string& module);

// Tells whether the text fits the pattern. `*` stands for any text.
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace mkc
