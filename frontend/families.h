// The known families: those of a folder given by the user, then those built in from models/.
#pragma once

#include <span>
#include <string>

#include "frontend/family.h"

namespace mkc {

struct BuiltinFamily {
  const char* path;  // "models/llama.yaml"
  const char* text;
};
std::span<const BuiltinFamily> builtin_families();  // generated from models/*.yaml

// The family that lists the config's architecture; where it names none, its model_type. `models_dir`: "" or a
// folder whose *.yaml files are looked at first, in order of name.
Result<Family> find_family(const Document& config, const std::string& models_dir);

}  // namespace mkc
