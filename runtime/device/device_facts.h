// The CUDA driver reports these facts about a GPU that a kernel is compiled for.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace mkrt {

// DeviceFacts holds 0 for a number that the driver does not report.
struct DeviceFacts {
  std::string name;               // "NVIDIA H100 80GB HBM3"
  std::string uuid;               // 32 hexadecimal digits; "": the driver cannot report it
  uint32_t major = 0, minor = 0;  // compute capability
  uint32_t sms = 0;               // multiprocessors
  uint32_t shared_bytes = 0;      // most shared memory of one block (opt-in)
  uint64_t memory_bytes = 0;      // device memory
  uint64_t l2_bytes = 0;
  double clock_mhz = 0;       // highest clock of the multiprocessors
  double memory_mhz = 0;      // memory transfers two words of the bus per clock
  uint32_t bus_bits = 0;      // width of the memory bus
  bool cooperative = false;   // supports cooperative launches, whose blocks may wait for each other
  bool time_limit = false;    // the driver ends kernels that run for long, as a display needs the GPU
  uint32_t compute_mode = 0;  // 0: default, 2: no process may use the GPU, 3: only one may
  uint32_t driver = 0;        // CUDA version that the driver supports: 12080 is 12.8
};

// Asks the driver without making a context. Errors: those of load_driver; there is no device `ordinal`.
Result<DeviceFacts> ask_cuda(int ordinal = 0);

}  // namespace mkrt
