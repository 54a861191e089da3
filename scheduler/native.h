// The machine description of the device that is there.
#pragma once

#include <string>
#include <string_view>

#include "runtime/device_facts.h"
#include "scheduler/machine.h"

namespace mkc {

// Bytes a nanosecond between device and memory by clock and bus: 2 * memory_mhz * bus_bits / 8 / 1000. 0: the
// driver does not give them.
double peak_bytes_per_ns(const mkrt::DeviceFacts& facts);

struct NativeMachine {
  Machine machine;
  std::string said;  // lines for people: which description was kept, or what was derived by which formula
};

// Of `target`, for a device that the driver describes so. A built-in description that lists the device's name
// is taken where the multiprocessors agree. Otherwise one is derived from the built-in description of the
// target whose multiprocessors and reading rate are nearest; docs/machines.md has the formulas, and each
// derived figure's source says its own. `measured`: text of what `mkc doctor` measured on this device
// (docs/machines.md), whose figures go before all others; "": nothing. Errors: no description of the target,
// shared memory that holds no ring, a measured file that is not what doctor writes.
Result<NativeMachine> machine_of_device(const mkrt::DeviceFacts& facts, std::string_view target,
                                        std::string_view measured = "");

// Of the figures of a description those that doctor may measure.
bool is_measurable(std::string_view key);

}  // namespace mkc
