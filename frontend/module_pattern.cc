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

Result<std::vector<ModulePattern>> read_patterns(const Document& config, const Node& list) {
  std::vector<ModulePattern> patterns;
  if (list.is(Node::Kind::kNull)) return patterns;
  if (!list.is(Node::Kind::kList))
    return config.error(list.place,
                        fmt::format("{} is {}, expected a list of modules", list.path, describe(list)));
  MKC_TRY(names, string_list(config, list));
  for (const std::string& name : names) {
    ModulePattern pattern{name};
    if (name.starts_with(kRegex)) {
      try {
        pattern.regex = std::regex(name.substr(kRegex.size()));
      } catch (const std::regex_error& error) {
        return config.error(list.place, fmt::format("{} has \"{}\", expected a regular expression: {}",
                                                    list.path, name, error.what()));
      }
    }
    patterns.push_back(std::move(pattern));
  }
  return patterns;
}

bool matches(const ModulePattern& pattern, const std::string& module) {
  if (pattern.regex) return std::regex_search(module, *pattern.regex, std::regex_constants::match_continuous);
  return matches_glob(pattern.name, module) || module.starts_with(pattern.name + ".") ||
         module.ends_with("." + pattern.name);
}

}  // namespace mkc
