// A device can run a step in one of three modes.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/schedule.h"

namespace mkc {

enum class Mode : uint8_t {
  kMegakernel,  // one kernel, mk_kernel, whose tasks wait for each other by events
  kTraced,      // one kernel that also stamps the times of its tasks (docs/trace.md)
  kKernels,     // one kernel mk_grid_<kind> per grid, launched in the order of launches_of()
};

const char* mode_name(Mode mode);  // "megakernel", "traced", "kernels"

// Returns the grids that are launched, in program order. Inline grids are left out: they run in their
// notifiers' kernels.
std::vector<GridId> launches_of(const Schedule& schedule);

}  // namespace mkc
