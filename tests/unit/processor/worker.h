// Tests of single bodies run on this worker of the processor.
#pragma once

#include "tests/unit/device/launch.h"

namespace mk {

// TestWorker has the memory of a worker, with `extra` bytes behind the scratch. Scratch holds what a task
// before has left.
struct TestWorker {
  std::vector<char> memory;
  Worker w{};
  explicit TestWorker(size_t extra = 0)
      : memory(kBarrierBytes + kListBytes + kScratchBytes + extra + 64, 0x5a) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(memory.data());
    w.shared = (AS3 char*)((begin + 63) / 64 * 64);
    w.arenas()->step = 0;
  }
};

template <class T>
AS3 T* shared(T* p) {
  return (AS3 T*)reinterpret_cast<uintptr_t>(p);
}

}  // namespace mk
