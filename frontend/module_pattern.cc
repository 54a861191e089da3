#include "frontend/module_pattern.h"

#include <fmt/format.h>

#include "frontend/fields.h"

namespace mkc {

namespace {

constexpr std::string_view kRegex = "re:";

// Tells whether the name is that of the module, of its end, or of what the module lies in.
bool matches_name(const std::string& name, const std::string& module) {
  return matches_glob(name, module) || module.starts_with(name + ".") || module.ends_with("." + name);
}

}  // namespace

bool matches_glob(std::string_view pattern, std::string_view text) {
  // A mismatch gives the last star one more byte. Earlier stars need no second try.
  size_t p = 0, t = 0, star = pattern.npos, behind_star = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++, behind_star = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != pattern.npos) {
      p = star + 1, t = ++behind_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

Result<ModulePattern> parse_pattern(const std::string& text) {
  ModulePattern pattern{.name = text};
  if (!text.starts_with(kRegex)) return pattern;
  Result<mkrt::Regex> regex = mkrt::Regex::compile(fmt::format("^(?:{})", text.substr(kRegex.size())));
  if (!regex.ok())
    return Error{fmt::format("\"{}\", expected a regular expression: {}", text, regex.error().message)};
  pattern.regex = std::make_shared<const mkrt::Regex>(std::move(regex.value()));
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
    patterns.back().place = list.place;
    patterns.back().list = list.path;
  }
  return patterns;
}

Result<bool> matches(const ModulePattern& pattern, const std::string& module) {
  if (!pattern.regex) return pattern.exact ? pattern.name == module : matches_name(pattern.name, module);
  std::vector<mkrt::Span> spans;
  mkrt::MatchTime time(module.size());
  const Status found = mkrt::RegexMatcher(*pattern.regex).find_all(module, spans, time);
  if (!found.ok())
    return Error{
        fmt::format("pattern \"{}\" against module \"{}\": {}", pattern.name, module, found.error().message)};
  return !spans.empty();
}

Result<bool> matches(const Document& config, const ModulePattern& pattern, const std::string& module) {
  Result<bool> found = matches(pattern, module);
  if (!found.ok()) return config.error(pattern.place, found.error().message);
  return found;
}

Result<bool> matches_any(const Document& config, const std::vector<ModulePattern>& patterns,
                         const std::string& module) {
  for (const ModulePattern& pattern : patterns) {
    MKC_TRY(found, matches(config, pattern, module));
    if (found) return true;
  }
  return false;
}

}  // namespace mkc
