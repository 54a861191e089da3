// Kernels mode has one kernel per kind of grid, and no events. Grid kernels have the tiles and bodies of the
// megakernel. Grid kernels serve as the megakernel's reference and as a fallback.
#pragma once

#include <llvm/IR/Module.h>

#include "codegen/kinds.h"
#include "codegen/mode.h"
#include "codegen/targets.h"

namespace mkc {

// Adds the kernel `mk_grid_<kind>(session, step, grid)` (runtime/abi/abi.h) to the module for each kind that
// is not inline. The kernel is launched once for each grid of the kind. Worker w of W runs the tasks [n*w/W,
// n*(w+1)/W) of a grid's n tasks; placements do not matter.
//
// A kernel lets the next one start at once, and loads its own weights before the previous kernel has ended.
// Nothing else is read or written before that end. The counters of inline grids are zero again at the end.
// Bodies and primitives stay declarations, to be linked in. Requires a proved schedule.
void emit_grid_kernels(llvm::Module& module, const Schedule& schedule, const Kinds& kinds,
                       const Engines& engines);

}  // namespace mkc
