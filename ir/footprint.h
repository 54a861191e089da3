// A footprint is the region of each operand that a task's body touches. No other definition exists: fusion
// declares this region, the verifier requires it (V33) and the emulator checks it.
#pragma once

#include <optional>

#include "ir/tasks.h"

namespace mkc {

// BodyOperand is one operand of a body's task. Operands of one role differ in `written` or `stream`.
struct BodyOperand {
  std::string_view role;
  TensorId tensor;
  bool written = false;
  bool stream = false;
};

// Returns the region of the operand that a task of the grid touches, over the grid's coordinates. Returns
// nothing where the body has no such operand, or where the program lacks symbols that the body uses. Requires
// roles, ranks, attributes and coordinates as the verifier requires them (V15 to V19).
std::optional<Region> footprint(const TaskProgram& program, const TaskGrid& grid, const BodyOperand& operand);

// Returns the extents that the grid's coordinates must have by its body. An entry is empty where other rules
// determine the extent.
std::vector<std::optional<Expr>> coordinate_extents(const TaskProgram& program, const TaskGrid& grid);

// Sets the region of every access of a grid to its footprint. Requires that each access has one.
void declare_regions(const TaskProgram& program, TaskGrid& grid);

// The partials of a row block's context and their upper bound (docs/batches.md).
struct ContextPartials {
  Expr positions;  // positions that one partial covers
  Expr first;      // first partial of the block's rows; 0 without a window
  Expr count;      // number of partials of the block that coordinate 1 names
  Expr max;        // partial slots of a row
};
// Requires the cut symbols. A `window` of 0 means no window.
ContextPartials context_partials(const TaskProgram& program, int64_t window);

}  // namespace mkc
