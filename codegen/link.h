// Modules of device code are linked into the kernel's module.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>

namespace mkc {

enum class Linked { kAll, kNeeded };

// Moves a part into the module: all functions, or those that the module declares and lacks. Clang's processor
// attributes and its lists of used globals are dropped.
void link(llvm::Module& module, std::unique_ptr<llvm::Module> part, Linked what);

}  // namespace mkc
