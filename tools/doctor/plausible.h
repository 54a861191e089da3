// Other programs slow a measurement of the processor. Figures that they spoil are left out, with the reason.
#pragma once

#include <string>

#include "tools/doctor/processor_measure.h"

namespace mkc {

// Returns why the runs of a rate differ too much for a figure, or "".
std::string rate_fault(const Spread& spread, const char* unit = "GB/s");
// Returns why the runs of a time differ too much for a figure, or "". Signals differ by the pair of cores,
// and their upper end alone is bounded.
std::string time_fault(const Spread& spread);
std::string signal_fault(const Spread& spread);

// Leaves out a figure that other work disturbed.
void leave_out_disturbed(ProcessorMeasurement& measured, const std::string& key, const std::string& why);

// Leaves out figures that are slower than those of a slower memory. A core's cache is at least as fast as the
// last-level cache, and that at least as fast as memory.
void leave_out_disordered(ProcessorMeasurement& measured, uint32_t threads);

}  // namespace mkc
