// LLVM's JIT links code of the emulator into this process.
#pragma once

#include <llvm/ExecutionEngine/Orc/LLJIT.h>

#include <memory>

#include "codegen/host_bodies.h"
#include "ir/diag.h"

namespace mkc {

template <class T>
T or_bug(llvm::Expected<T> value) {
  if (!value) MKC_BUG("host code: " + llvm::toString(value.takeError()));
  return std::move(*value);
}

void or_bug(llvm::Error error);

// Returns this processor. `quick` is for code that compiles in less time.
llvm::orc::JITTargetMachineBuilder host_machine(bool quick);

// Returns a JIT that knows the emulator's primitives and these functions.
std::unique_ptr<llvm::orc::LLJIT> make_jit(llvm::orc::JITTargetMachineBuilder machine,
                                           const NamedFunctions& functions);

}  // namespace mkc
