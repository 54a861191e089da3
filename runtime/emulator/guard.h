// Kernels that follow a wild address: an error of the launch, not the end of the process.
#pragma once

#include <csignal>

namespace mkrt::emulator {

// While it lives, a fiber of this OS thread that touches memory which is not there ends its launch with a
// misuse that names the address. Other faults go where they went before. Sanitizers keep their own reports.
class Guard {
 public:
  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  char* stack_ = nullptr;  // of the handler: the fiber's may be full
  stack_t before_{};
};

}  // namespace mkrt::emulator
