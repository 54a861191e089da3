// The operands of a grid by their roles.
#pragma once

#include <cstddef>
#include <string_view>

#include "codegen/targets.h"
#include "ir/schedule.h"

namespace mkc {

// The tensor of an operand that the grid has.
const Tensor& operand_tensor(const TaskProgram& program, const TaskGrid& grid, std::string_view role,
                             bool written = false);

// Whether a product may take the last rows of the requests: a program without their lists has none.
bool may_gather_rows(const TaskProgram& program);

// Positions of a part of attention.
Expr partial_positions_of(const TaskProgram& program, const TaskGrid& grid);

// Place of a role in MkGrid::operand.
size_t operand_place(BodyKind body, std::string_view role, bool written);

// The tokens from which on warpgroups multiply in a product; 0: never, and for other grids.
uint32_t wgmma_from(const Schedule& schedule, GridId grid, const Engines& engines);

}  // namespace mkc
