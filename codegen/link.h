// Modules of device code are linked into the kernel's module.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>

namespace mkc {

enum class Linked { kAll, kNeeded };

// Moves a part into the module: all functions, or those that the module declares and lacks. Clang's processor
// attributes and its lists of used globals are dropped.
void link(llvm::Module& module, std::unique_ptr<llvm::Module> part, Linked what);

// Puts a constant for each load of mk_traced (device/tracing.ll), which says whether the kernel writes a
// trace.
void decide_tracing(llvm::Module& module, bool traced);

}  // namespace mkc
