// What the CUDA driver says of a GPU that a kernel is compiled for.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace mkrt {

// A figure that the driver does not give is 0.
struct DeviceFacts {
  std::string name;               // "NVIDIA H100 80GB HBM3"
  std::string uuid;               // 32 hexadecimal digits; "": the driver has no such call
  uint32_t major = 0, minor = 0;  // compute capability
  uint32_t sms = 0;               // multiprocessors
  uint32_t shared_bytes = 0;      // that one block may ask for (opt-in)
  uint64_t memory_bytes = 0;      // of the device
  uint64_t l2_bytes = 0;          //
  double clock_mhz = 0;           // the largest of the multiprocessors
  double memory_mhz = 0;          // memory moves two words of the bus a clock
  uint32_t bus_bits = 0;          // between memory and device
  bool cooperative = false;       // kernels whose blocks may wait for each other
  uint32_t driver = 0;            // CUDA version that the driver is made for: 12080 is 12.8
};

// Asks without making a context. Errors: those of load_driver; there is no device `ordinal`.
Result<DeviceFacts> ask_cuda(int ordinal = 0);

}  // namespace mkrt
