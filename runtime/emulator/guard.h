// Kernels that follow a wild address or never end: an error of the launch, not of the process.
#pragma once

#include <cstdint>
#include <memory>

namespace mkrt::emulator {

// While it lives, a fiber of this OS thread that touches memory which is not there ends its launch with a
// misuse that names the address. A fiber in code made by a JIT ends it, too, where it runs for `patience_ms`
// of the processor without a switch; 0: never. Other signals go where they went before. Sanitizers keep their
// own reports, and fibers run on.
class Guard {
 public:
  explicit Guard(uint32_t patience_ms);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  struct State;

 private:
  std::unique_ptr<State> state_;  // null: nothing is guarded
};

}  // namespace mkrt::emulator
