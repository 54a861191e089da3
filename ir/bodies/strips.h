// Bodies of products share these strips of weight rows. This header is internal to ir/bodies.
#pragma once

#include "ir/bodies/body.h"

namespace mkc {

// Returns the columns of `out` that a strip of weight rows makes. A gate row and an up row make one column
// together.
int64_t strip_columns(const TaskGrid& grid);

// Returns the footprint of an operand of a product or split_k_reduce. Coordinate 0 is the strip.
std::optional<Region> strip_footprint(const FootprintOf& operand);

// Checks V17 to V19 of the strips along a coordinate. A product has one task per strip of its weight. A task
// of an expert may take several strips. `out` has a column for each weight row, or for each pair of rows with
// a gate.
void check_strips(const GridUnderCheck& c, size_t coordinate = 0);

}  // namespace mkc
