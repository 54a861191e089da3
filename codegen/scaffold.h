// The scaffold surrounds the task bodies of the megakernel: dispatch, waits, notifications and the loader.
#pragma once

#include <llvm/IR/Module.h>

#include "codegen/kinds.h"
#include "codegen/targets.h"

namespace mkc {

// Adds `mk_kernel(session, step)` (runtime/abi/abi.h) to the module. Every thread of every worker runs the
// kernel once a launch.
//
// Consumer warps walk the worker's stream of segments and run the tasks. The loader warp walks the stream too
// and fills the ring, by bulk copies or by 16-byte copies. Loads wait for lookups, but not for the other
// events of a task.
//
// Bodies and primitives stay declarations, to be linked in. Requires a proved schedule. Ensures that code
// size grows with the kinds, not with the grids.
void emit_kernel(llvm::Module& module, const Schedule& schedule, const Kinds& kinds, const Engines& engines);

}  // namespace mkc
