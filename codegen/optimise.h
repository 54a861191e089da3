// LLVM's passes over bodies and kernels.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

namespace mkc {

// Brings task bodies to a simple form, with their helpers inlined and their marked loops unrolled: once,
// instead of once for every kind of grid that they are inlined for. Those of GPUs are so when mkc is built.
void simplify_bodies(llvm::Module& module);

// Inlines simple bodies into the kernels, to which everything else is internal, for a machine.
void optimise(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace mkc
