// Bodies and kernels go through these LLVM pass pipelines.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

namespace mkc {

// Simplifies task bodies: inlines their helpers and unrolls their marked loops. A body is simplified once,
// not for every kind of grid that inlines it. Bodies for GPUs are simplified when mkc is built.
void simplify_bodies(llvm::Module& module);

// Optimises kernels for a machine, with simplified bodies inlined. Functions that are not internal are kept.
// `quick` leaves bodies as functions: it takes less time and leaves slower code.
void optimise(llvm::Module& module, llvm::TargetMachine& machine, bool quick = false);

// Makes the thread sanitizer see what the module does, in a build of mkc with that sanitizer. Other builds
// leave the module as it is.
void sanitize_threads(llvm::Module& module);

}  // namespace mkc
