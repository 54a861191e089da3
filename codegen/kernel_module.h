// The kernel is one LLVM module: scaffold, task bodies and primitives, inlined into each kernel.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/kinds.h"
#include "codegen/mode.h"
#include "codegen/targets.h"

namespace mkc {

// Tells whether kernels of a mode call the bodies that were compiled when mkc was built. These write no
// trace.
constexpr bool calls_bodies(Mode mode, bool quick) {
  return quick && mode != Mode::kTraced;
}

// Parts are bitcode files to link, in their order (see device_bitcode).
struct Parts {
  std::span<const std::string> names;
  bool lines = false;   // keeps the lines of the source, where a file has them
  bool called = false;  // links nothing: the kernels call bodies that are machine code (bitcode.h)
};

// Returns a module with the kernels of a mode and mk_pack. The functions that the kernels need are linked
// from `parts`. Functions that no part has stay declarations.
//
// Every function except the kernels is internal. No function is bound to the processor that its bitcode was
// made for. `engines` are those of the GPU, or of the GPU that the emulator imitates. Requires a schedule
// that can be proved.
std::unique_ptr<llvm::Module> make_kernel_module(llvm::LLVMContext& context, const Schedule& schedule,
                                                 const Kinds& kinds, Mode mode, const Engines& engines,
                                                 const Parts& parts);

// Returns the kernels of probe.cc and measure.cc, with the target's primitives. Kernels whose instructions
// the target lacks are left out.
std::unique_ptr<llvm::Module> make_probe_module(llvm::LLVMContext& context, const Target& target);

// Returns the kernels of a module: its defined functions with external linkage.
std::vector<llvm::Function*> kernels_of(llvm::Module& module);
}  // namespace mkc
