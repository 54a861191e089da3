// The guard turns a kernel's wild address or endless loop into an error of the launch, not of the process.
#pragma once

#include <cstdint>
#include <memory>

namespace mkrt::emulator {

// Guard ends, while the object lives, the launch of a fiber of this OS thread that touches unmapped memory.
// The error is a misuse that names the address.
//
// A fiber in JIT code also ends its launch after `patience_ms` of processor time without a switch; 0 means
// never. A fiber elsewhere runs one instruction at a time from then on, until it is back in JIT code or
// switches. Other signals go to their earlier handlers.
//
// Nothing is guarded under sanitizers, which make their own reports.
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
