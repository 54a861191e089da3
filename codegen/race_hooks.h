// Instrumented kernels report their memory accesses to the emulator's race detector.
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <vector>

namespace mkc {

// Inserts a call of mk_race_read or mk_race_write (runtime/emulator/primitives.h) before every access of
// global and shared memory that is not atomic. Returns "file:line" of each site, by site number. Site 0 is
// the scaffold. The instrumentation runs after optimisation, so reports match the accesses of the final code.
std::vector<std::string> add_race_hooks(llvm::Module& module);

}  // namespace mkc
