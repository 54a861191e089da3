// Optimisation of kernel modules.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

namespace mkc {

// Makes the module one of `machine` and optimises it. Inlines all bodies.
void optimise(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace mkc
