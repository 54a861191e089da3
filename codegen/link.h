// Modules of device code put together.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>

namespace mkc {

enum class Linked { kAll, kNeeded };

// Moves a part into the module: all of it, or what the module lacks. Its functions are then bound to no
// processor that clang noted for them, and none is kept for its own sake.
void link(llvm::Module& module, std::unique_ptr<llvm::Module> part, Linked what);

}  // namespace mkc
