// Rule 6 of prove.h compares the reads and writes of tasks with the order in which they happen. This header
// is internal to prove.
#pragma once

#include "scheduler/proof/value_order.h"

namespace mkc {

// Checks accesses and shared memory. Two tasks that touch the same part of a tensor, one of them writing,
// must happen in the order of their grids in the program. Earlier writes must cover every read of an
// activation or output. One of two tensors that share memory must be dead before the other is written. Adds
// the number of comparisons to `orderings`.
Status check_accesses(const Step& step, const HappensBefore& order, uint64_t& orderings);

}  // namespace mkc
