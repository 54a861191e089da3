// The kernel as one LLVM module: scaffold, task bodies and primitives, inlined into each kernel.
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

// Emits the kernels of a mode, and mk_pack, and links what they need of the named bitcode files (see
// device_bitcode), in this order; primitives found in none of them stay declarations. Everything but the
// kernels is internal, and no function is bound to the processor that its bitcode was made for. `engines`: of
// the GPU, or those that the emulator is to stand for. Requires a schedule that can be proved.
std::unique_ptr<llvm::Module> make_kernel_module(llvm::LLVMContext& context, const Schedule& schedule,
                                                 const Kinds& kinds, Mode mode, const Engines& engines,
                                                 std::span<const std::string> parts);

// The kernels of probe.cc and measure.cc whose instructions a target has, with its primitives.
std::unique_ptr<llvm::Module> make_probe_module(llvm::LLVMContext& context, const Target& target);

// Those of a module that make_kernel_module made.
std::vector<llvm::Function*> kernels_of(llvm::Module& module);
}  // namespace mkc
