// A schedule is checked task by task at these values of its symbols. This header is internal to prove.
#pragma once

#include <vector>

#include "ir/tasks.h"

namespace mkc {

// Returns values in the order of their worth.
//
// Programs with lists over requests get these steps: a decode step at the start of a context; a mix of
// decodes and chunks with lengths around every divisor and window; prompts at both ends of the context; the
// most requests; and random mixes. Other programs get all corners of the symbols' bounds, then one symbol at
// a time around the divisors.
std::vector<std::vector<int64_t>> chosen_values(const TaskProgram& program);

}  // namespace mkc
