// Bodies and kernels go through these LLVM pass pipelines.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

namespace mkc {

// Simplifies task bodies: inlines their helpers and unrolls their marked loops. A body is simplified once,
// not for every kind of grid that inlines it. Bodies for GPUs are simplified when mkc is built.
void simplify_bodies(llvm::Module& module);

// Optimises simplified bodies for a machine, each as a function of its own.
void optimise_bodies(llvm::Module& module, llvm::TargetMachine& machine);

// Optimises kernels for a machine, with simplified bodies inlined. Requires that all functions except the
// kernels are internal. `quick` calls the bodies: it takes less time and leaves slower code.
void optimise(llvm::Module& module, llvm::TargetMachine& machine, bool quick = false);

// Makes the thread sanitizer see what the module does, in a build of mkc with that sanitizer. Other builds
// leave the module as it is.
void sanitize_threads(llvm::Module& module);

}  // namespace mkc
