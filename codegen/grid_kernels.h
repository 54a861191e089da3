// Each grid as a kernel of its own: the same tiles and bodies without events, to compare with and to fall
// back to.
#pragma once

#include <llvm/IR/Module.h>

#include "codegen/kinds.h"
#include "codegen/mode.h"
#include "codegen/targets.h"

namespace mkc {

// Adds `mk_grid_<kind>(session, step, grid)` (runtime/abi/abi.h) to the module for each kind that is not
// inline. Every thread of every worker runs it once for each grid of the kind; a worker's share is [n*w/W,
// n*(w+1)/W) of the n tasks, whatever the placement. A kernel lets the next one start at once and brings its
// own weights before the one before it has ended; nothing else is read or written until then. The counters of
// inline grids are zero again at the end. Bodies and primitives stay declarations, to be linked in. Requires
// a proved schedule.
void emit_grid_kernels(llvm::Module& module, const Schedule& schedule, const Kinds& kinds,
                       const Engines& engines);

}  // namespace mkc
