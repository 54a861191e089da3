#include "frontend/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "frontend/fields.h"
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

}  // namespace

Result<Family> find_family(const Document& config, const std::string& models_dir) {
  MKC_TRY(key, deciding_key(config));
  MKC_TRY(sources, family_sources(models_dir));
  std::vector<std::string> known;
  for (Source& source : sources) {
    MKC_TRY(document, parse_yaml(std::move(source)));
    MKC_TRY(family, read_family(std::move(document)));
    const auto& names = key.path == "architectures" ? family.architectures : family.model_types;
    if (std::find(names.begin(), names.end(), key.string) == names.end()) {
      known.insert(known.end(), names.begin(), names.end());
      continue;
    }
    const Node type = config_value(config, "model_type");
    const auto& types = family.model_types;
    const bool agrees = std::find(types.begin(), types.end(), type.string) != types.end();
    if (agrees || type.is(Kind::kNull)) return std::move(family);
    return config.error(type.place, fmt::format("model_type is {}, but {} is of the {} family",
                                                describe(type), key.string, family.name));
  }
  return config.error(
      key.place, fmt::format("{} names \"{}\", known are {}", key.path, key.string, fmt::join(known, ", ")));
}

}  // namespace mkc
