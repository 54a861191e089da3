// The weights, caches and ops of a family file, read by the op schemas of ir/ops.h.
#pragma once

#include <optional>
#include <string_view>

#include "frontend/family.h"

namespace mkc {

// The formula at `key`, if the key is there.
Result<std::optional<Formula>> optional_formula(const Document& document, const Node& map,
                                                std::string_view key);

// The keys prefix, weights, caches (all optional) and ops of `map`. Where `layers_at` is given, `layers` must
// stand once among the ops, and *layers_at tells before which op.
Result<Block> read_block(const Document& document, const Node& map, std::string_view what, size_t* layers_at);

}  // namespace mkc
