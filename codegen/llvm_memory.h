// LLVM is built without exceptions, so a failed allocation inside it cannot be thrown to its caller.
#pragma once

namespace mkc {

// LlvmMemory says how a failed allocation ends while an object of it lives: temporaries are removed, an error
// is written to standard error, and the process ends with status 1. This holds for all threads. Declare one
// before the first object of LLVM.
class LlvmMemory {
 public:
  LlvmMemory();
  ~LlvmMemory();
  LlvmMemory(const LlvmMemory&) = delete;
  LlvmMemory& operator=(const LlvmMemory&) = delete;
};

}  // namespace mkc
