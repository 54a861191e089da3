#include "frontend/module_pattern.h"

#include <fmt/format.h>

#include "frontend/fields.h"

namespace mkc {

constexpr std::string_view kRegex = "re:";

bool matches_glob(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  for (size_t at = star; at <= text.size(); ++at)
    if (matches_glob(pattern.substr(star + 1), text.substr(at))) return true;
  return false;
}

Result<ModulePattern> parse_pattern(const std::string& text) {
  ModulePattern pattern{text};
  if (!text.starts_with(kRegex)) return pattern;
  try {
    pattern.regex = std::regex(text.substr(kRegex.size()));
  } catch (const std::regex_error& error) {
    return Error{fmt::format("\"{}\", expected a regular expression: {}", text, error.what())};
  }
  return pattern;
}

Result<std::vector<ModulePattern>> read_patterns(const Document& config, const Node& list) {
  std::vector<ModulePattern> patterns;
  if (list.is(Node::Kind::kNull)) return patterns;
  if (!list.is(Node::Kind::kList))
    return config.error(list.place,
                        fmt::format("{} is {}, expected a list of modules", list.path, describe(list)));
  MKC_TRY(names, string_list(config, list));
  for (const std::string& name : names) {
    Result<ModulePattern> pattern = parse_pattern(name);
    if (!pattern.ok())
      return config.error(list.place, fmt::format("{} has {}", list.path, pattern.error().message));
    patterns.push_back(std::move(pattern.value()));
  }
  return patterns;
}

bool matches(const ModulePattern& pattern, const std::string& module) {
  if (pattern.regex) return std::regex_search(module, *pattern.regex, std::regex_constants::match_continuous);
  return matches_glob(pattern.name, module) || module.starts_with(pattern.name + ".") ||
         module.ends_with("." + pattern.name);
}

}  // namespace mkc
