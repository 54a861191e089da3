// Exposed hops of a simulated step lie on its critical path.
#pragma once

#include "codegen/kinds.h"
#include "tools/simulated_step.h"

namespace mkc {

// HopRow sums the hops on the critical path from tasks of one kind of grid to tasks of another.
struct HopRow {
  GridId from, to;  // first grids of the two kinds
  uint32_t count = 0;
  double finish_ns = 0;  // reduction, stores, barrier
  double signal_ns = 0;  // notification, poll, barrier
  double start_ns = 0;   // first operands
  double ns() const { return finish_ns + signal_ns + start_ns; }
};

// Returns the rows in the order in which the critical path first takes them.
std::vector<HopRow> critical_hops(const SimulatedStep& step, const Kinds& kinds);

}  // namespace mkc
