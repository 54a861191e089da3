// Reports of memory accesses to the emulator's race detector.
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <vector>

namespace mkc {

// Puts mk_race_read or mk_race_write (runtime/emulator/primitives.h) before every access of global and shared
// memory. Returns "file:line" of each site, by its number; 0 is the scaffold. Runs after optimisation: what
// is reported is what the kernel does.
std::vector<std::string> add_race_hooks(llvm::Module& module);

}  // namespace mkc
