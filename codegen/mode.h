// How a step runs on a device.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/schedule.h"

namespace mkc {

enum class Mode : uint8_t {
  kMegakernel,  // one kernel, mk_kernel, whose tasks wait for each other by events
  kTraced,      // the same, which stamps what it does when (docs/trace.md)
  kKernels,     // a kernel for each grid, mk_grid_<kind>, in the order of launches_of
};

const char* mode_name(Mode mode);  // "megakernel", "traced", "kernels"

// The bitcode that answers mk_tracing(): "untraced", "traced".
const char* tracing_of(Mode mode);

// The grids in program order, which is the meaning of a program; inline grids run in their notifiers'
// kernels.
std::vector<GridId> launches_of(const Schedule& schedule);

}  // namespace mkc
