// Known families are those of a folder given by the user, then those built in from models/.
#pragma once

#include <span>
#include <string>

#include "frontend/family.h"

namespace mkc {

struct BuiltinFamily {
  const char* path;  // such as "models/llama.yaml"
  const char* text;
};
std::span<const BuiltinFamily> builtin_families();  // generated from models/*.yaml
bool is_builtin(const Family& family);              // by its path and text

// Returns the family that lists the config's first architecture. A config without architectures is matched by
// its model_type. Errors: a config that names neither, no family for it, a model_type of another family.
// Family files that are tried must be readable and well-formed.
//
// `models_dir` is "" or a folder. Its *.yaml files are tried before the built-in families, in the order of
// their names.
Result<Family> find_family(const Document& config, const std::string& models_dir);

}  // namespace mkc
