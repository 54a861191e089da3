// The kernel as one LLVM module: scaffold, task bodies and primitives, inlined into mk_kernel.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>
#include <span>
#include <string>

#include "codegen/kinds.h"

namespace mkc {

// Emits the scaffold and links the bodies and the named primitive files (see device_bitcode); primitives
// found in none of them stay declarations. Everything but mk_kernel is internal, and no function is bound to
// the processor that its bitcode was made for. `bulk_copy`: whether the
// loader uses the copy engine. Requires a proved schedule.
std::unique_ptr<llvm::Module> make_kernel_module(llvm::LLVMContext& context, const Schedule& schedule,
                                                 const Kinds& kinds, bool bulk_copy,
                                                 std::span<const std::string> primitives);

}  // namespace mkc
