// The kernel's scaffold: dispatch, waits, notifications and the loader, built around the task bodies.
#pragma once

#include <llvm/IR/Module.h>

#include "codegen/kinds.h"
#include "codegen/targets.h"

namespace mkc {

// Adds `mk_kernel(session, step)` (runtime/abi/abi.h) to the module: every thread of every worker runs it
// once a step. Consumer warps walk the worker's stream of segments and run the tasks; the loader warp walks
// the same stream and fills the ring without waiting for events: by bulk copies or by 16-byte ones. Bodies
// and primitives stay declarations, to be linked in. Requires a proved schedule. Ensures: code size grows
// with the kinds, not with the grids.
void emit_kernel(llvm::Module& module, const Schedule& schedule, const Kinds& kinds, const Engines& engines);

}  // namespace mkc
