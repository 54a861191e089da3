// The hops of a simulated step that nothing hid.
#pragma once

#include "codegen/kinds.h"
#include "tools/simulated_step.h"

namespace mkc {

// Hops from tasks of one kind of grid to those of another, on the critical path; times are sums over them.
struct HopRow {
  GridId from, to;  // each the first of its kind
  uint32_t count = 0;
  double finish_ns = 0;  // reduction, stores, barrier
  double signal_ns = 0;  // notification, poll, barrier
  double start_ns = 0;   // first operands
  double ns() const { return finish_ns + signal_ns + start_ns; }
};

// In the order in which the path first takes them.
std::vector<HopRow> critical_hops(const SimulatedStep& step, const Kinds& kinds);

}  // namespace mkc
