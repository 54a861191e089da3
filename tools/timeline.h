// A simulated step as a timeline.
#pragma once

#include "tools/simulated_step.h"

namespace mkc {

// Chrome's trace event format (JSON object form), which Perfetto opens: for each worker a track of its
// consumers (waits and tasks) and one of the stream into its ring. Times in microseconds.
// Requires a simulation that kept its stream.
std::string chrome_trace(const SimulatedStep& step);

}  // namespace mkc
