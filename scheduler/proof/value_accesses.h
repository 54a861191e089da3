// Rule 6 of prove.h: what tasks read and write, against the order they happen in. Internal to prove.
#pragma once

#include "scheduler/proof/value_order.h"

namespace mkc {

// Every pair of tasks that touch the same part of a tensor, one of them writing, must happen in the order of
// their grids in the program; every read of an activation or output must be covered by writes before it; of
// two tensors that share memory one must be dead before the other is written. Adds to `orderings` the
// comparisons made.
Status check_accesses(const Step& step, const HappensBefore& order, uint64_t& orderings);

}  // namespace mkc
