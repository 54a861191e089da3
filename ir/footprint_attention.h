// Footprints of attention's bodies: append, attend and combine. Internal to footprint.
#pragma once

#include "ir/footprint.h"

namespace mkc {

std::optional<Region> attention_footprint(const TaskProgram& program, const TaskGrid& grid,
                                          const BodyOperand& operand);
void add_attention_extents(const TaskProgram& program, const TaskGrid& grid,
                           std::vector<std::optional<Expr>>& extents);

}  // namespace mkc
