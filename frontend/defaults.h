// Keys that a config.json leaves out have the values that the family's file declares for its model type.
#pragma once

#include "frontend/family.h"

namespace mkc {

// Returns the config with the family's default of each missing key. A default has no place. The model type is
// the config's `model_type`, or that of its first architecture where this key is missing or null.
Document with_defaults(const Family& family, Document config);

// Returns what an error adds about a value of config.json: that it is a default, or "".
std::string default_note(const Node& value);

// Returns what an error of tensors adds: the defaults from which names and shapes of weights follow, or "".
std::string default_note(const Family& family, const Document& config);

}  // namespace mkc
