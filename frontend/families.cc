#include "frontend/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "frontend/yaml.h"

namespace mkc {
namespace {

using Kind = Node::Kind;

Result<std::vector<Source>> family_sources(const std::string& models_dir) {
  std::vector<Source> sources;
  if (!models_dir.empty()) {
    std::error_code code;
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(models_dir, code)) {
      if (entry.path().extension() == ".yaml") paths.push_back(entry.path().string());
    }
    if (code) return error_at({models_dir}, fmt::format("cannot be read: {}", code.message()));
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      MKC_TRY(source, read_source(path));
      sources.push_back(std::move(source));
    }
  }
  for (const BuiltinFamily& builtin : builtin_families()) sources.push_back({builtin.path, builtin.text});
  return sources;
}

// Returns the name by which a config's family is found. Its path is the config key that gives the name.
Result<Node> deciding_key(const Document& config) {
  const Node architectures = config_value(config, "architectures");
  const bool named = architectures.is(Kind::kList) && !architectures.items.empty();
  Node key = named ? architectures.items[0] : config_value(config, "model_type");
  key.path = named ? "architectures" : "model_type";
  if (key.is(Kind::kString)) return key;
  if (key.place.line == 0) {
    return error_at({config.source.path}, "missing keys \"architectures\" and \"model_type\"");
  }
  return config.error(key.place, fmt::format("{} is {}, expected a string", key.path, describe(key)));
}

// Returns the names of a family among which the config's is looked for.
const std::vector<std::string>& names_of(const Family& family, const Node& key) {
  return key.path == "architectures" ? family.architectures : family.model_types;
}

// Returns the family if its model types agree with the config.
Result<Family> checked(Family family, const Document& config, const Node& key) {
  const Node type = config_value(config, "model_type");
  if (type.is(Kind::kNull) || std::ranges::count(family.model_types, type.string) > 0) return family;
  return config.error(type.place, fmt::format("model_type is {}, but {} is of the {} family", describe(type),
                                              key.string, family.name));
}

}  // namespace

bool is_builtin(const Family& family) {
  const Source& source = family.document.source;
  return std::ranges::any_of(builtin_families(), [&](const BuiltinFamily& known) {
    return known.path == source.path && known.text == source.text;
  });
}

Result<Family> find_family(const Document& config, const std::string& models_dir) {
  MKC_TRY(key, deciding_key(config));
  MKC_TRY(sources, family_sources(models_dir));
  const size_t given = sources.size() - builtin_families().size();
  std::vector<std::string> known;
  // Parsing takes most of the time. A built-in family without the name in its text cannot list it, and is
  // parsed for the error alone.
  for (const bool all : {false, true}) {
    known.clear();
    for (size_t i = 0; i < sources.size(); ++i) {
      if (!all && i >= given && sources[i].text.find(key.string) == std::string::npos) continue;
      MKC_TRY(document, parse_yaml(sources[i]));
      MKC_TRY(family, read_family(std::move(document)));
      const std::vector<std::string>& names = names_of(family, key);
      if (std::ranges::count(names, key.string) > 0) return checked(std::move(family), config, key);
      known.insert(known.end(), names.begin(), names.end());
    }
  }
  return config.error(
      key.place, fmt::format("{} names \"{}\", known are {}", key.path, key.string, fmt::join(known, ", ")));
}

}  // namespace mkc
