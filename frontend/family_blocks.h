// These functions read the weights, caches and ops of a family file. The op schemas of ir/ops.h say what an
// op may hold.
#pragma once

#include <optional>
#include <string_view>

#include "frontend/family.h"

namespace mkc {

// Returns the formula at `key`, or nothing if the key is missing. Errors: a malformed expression.
Result<std::optional<Formula>> optional_formula(const Document& document, const Node& map,
                                                std::string_view key);

// Returns the block in `map`, from the keys `prefix`, `weights`, `caches` (all optional) and `ops`. Errors:
// those of read_family().
//
// The entry `layers` must stand once among the ops if `layers_at` is given. *layers_at then receives the
// index of the op after it.
Result<Block> read_block(const Document& document, const Node& map, std::string_view what, size_t* layers_at);

}  // namespace mkc
