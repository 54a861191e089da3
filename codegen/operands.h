// Operands of a grid are found by their roles.
#pragma once

#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

#include "codegen/device/bodies.h"
#include "codegen/targets.h"
#include "ir/schedule.h"

namespace mkc {

// Returns the tensor of an operand. Requires that the grid has the operand.
const Tensor& operand_tensor(const TaskProgram& program, const TaskGrid& grid, std::string_view role,
                             bool written = false);

// Tells whether products of the program may gather the last rows of the requests. A program without the
// requests' lists cannot.
bool may_gather_rows(const TaskProgram& program);

// Returns the positions that one partial of an attend grid covers.
Expr partial_positions_of(const TaskProgram& program, const TaskGrid& grid);

// Returns the index of a role in MkGrid::operand.
size_t operand_place(BodyKind body, std::string_view role, bool written);

// Returns the number of tokens from which warpgroups multiply in a product. The result is 0 if they never do,
// and for other grids.
uint32_t reached_wgmma_from(const Schedule& schedule, GridId grid, const Engines& engines);
// Tells whether a product's sums need more registers than a thread has at the kernel's start. Sums of
// warpgroups do, and those of wide warps with two strips (runtime/abi/packing.h).
bool needs_registers(const Schedule& schedule, GridId grid, const Engines& engines);

// Returns the types of weights and activations of products whose rows have padding of whole chunks.
std::set<std::pair<DType, DType>> types_with_padded_chunks(const TaskProgram& program);
// Returns what the code of a product does about padding. Products share code, so one whose rows have none
// takes the code for padding of whole chunks if another of its types has it.
mk::Padding code_padding(const TaskProgram& program, const TaskGrid& grid,
                         const std::set<std::pair<DType, DType>>& padded_chunks);

// Returns each mk::EpiloguePart that a grid and those which may share its code all lack. Such grids have
// equal types of weights.
uint32_t left_out(const TaskProgram& program, const TaskGrid& grid);

// Returns the number of tokens from which a product's activations are 8-bit floats. The result is 0 if they
// never are, and for other grids.
uint32_t reached_fp8_from(const Schedule& schedule, GridId grid);

}  // namespace mkc
