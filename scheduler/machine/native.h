// The installed device gets a machine description from its driver and from measurements.
#pragma once

#include <string>
#include <string_view>

#include "runtime/device/device_facts.h"
#include "scheduler/machine/machine.h"

namespace mkc {

// Returns a number above 0, rounded to four significant digits as figures of a description are.
double to_four_digits(double value);

// Returns the bytes per nanosecond between device and memory by clock and bus: 2 * memory_mhz * bus_bits / 8
// / 1000. Returns 0 where the driver does not give these.
double peak_bytes_per_ns(const mkrt::DeviceFacts& facts);

// Returns a device's name in lower case, with a dash for each run of other characters than letters and
// digits. A run at the beginning is left out. "NVIDIA GH200 480GB" gives "nvidia-gh200-480gb".
std::string slug(const std::string& name);

struct NativeMachine {
  Machine machine;
  // Lines for people about which description was kept, or which figures were derived by which formula.
  std::string said;
  uint32_t driver = 0;  // CUDA version that the device's driver supports, as it counts; 0: no GPU was asked
};

// Returns the description of `target` for a device that the driver describes by `facts`.
//
// A built-in description that lists the device's name is kept where the number of multiprocessors agrees.
// Otherwise a description is derived from a built-in description of the target. The base is the one whose
// multiprocessors and peak rate are nearest. docs/machines.md has the formulas, and the source of each
// derived figure says its own.
//
// `measured` is the text of the figures that `mkc doctor` measured on this device (docs/machines.md); ""
// where there are none. Measured figures override all others.
//
// Errors: no description of the target; shared memory that holds no ring; a measured file that doctor did not
// write.
Result<NativeMachine> machine_of_device(const mkrt::DeviceFacts& facts, std::string_view target,
                                        std::string_view measured = "");

}  // namespace mkc
