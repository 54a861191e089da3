// The region of each operand that a task's body touches. This is the one definition: fusion declares it, the
// verifier requires it (V33) and the emulator checks it.
#pragma once

#include <optional>

#include "ir/tasks.h"

namespace mkc {

// One operand of a body's task. Operands of one role differ in `written` or `stream`.
//
struct BodyOperand {
  std::string_view role;
  TensorId tensor;
  bool written = false;
  bool stream = false;
};

// The region that a task of the grid touches of the operand, over the grid's coordinates. Nothing where its
// body has no such operand, or the program lacks the symbols that its body goes by. Requires roles, ranks,
// attributes and coordinates as the verifier has them (V15 to V19).
std::optional<Region> footprint(const TaskProgram& program, const TaskGrid& grid, const BodyOperand& operand);

// The extents of the grid's coordinates as its body has them; an entry is empty where other rules say it.
std::vector<std::optional<Expr>> coordinate_extents(const TaskProgram& program, const TaskGrid& grid);

// Gives all accesses of a grid their footprints. Requires that they have one.
void declare_regions(const TaskProgram& program, TaskGrid& grid);

// The parts of a row block's context, and the most that there are: docs/batches.md.
struct ContextPartials {
  Expr positions;  // first partial of the block's context, which a window may move past 0
  Expr first;      // number of partials of the block that coordinate 1 names
  Expr count;      // partial slots of a row
  Expr max;        // slots of a row
};
// Requires the cut symbols. `window` 0: none.
ContextPartials context_partials(const TaskProgram& program, int64_t window);

}  // namespace mkc
