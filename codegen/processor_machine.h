// LLVM's machine of a processor's target.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>

#include "codegen/targets.h"
#include "ir/diag.h"

namespace mkc {

// Returns the machine for code in a shared object. Requires a processor's target.
std::unique_ptr<llvm::TargetMachine> processor_machine(const Target& target, llvm::CodeGenOptLevel level);

}  // namespace mkc
