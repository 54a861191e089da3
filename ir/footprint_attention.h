// Footprints of attention's bodies: append, attend and combine. Internal to footprint.
#pragma once

#include "ir/footprint.h"

namespace mkc {

// Returns footprint() of an operand of append, attend or combine.
std::optional<Region> attention_footprint(const TaskProgram& program, const TaskGrid& grid,
                                          const BodyOperand& operand);
// Sets the extents of coordinates of append, attend and combine that their bodies determine.
void add_attention_extents(const TaskProgram& program, const TaskGrid& grid,
                           std::vector<std::optional<Expr>>& extents);

}  // namespace mkc
