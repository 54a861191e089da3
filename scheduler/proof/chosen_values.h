// The symbol values at which a schedule is checked task by task. Internal to prove.
#pragma once

#include <vector>

#include "ir/tasks.h"

namespace mkc {

// In the order of their worth. Of steps with lists over requests: a decode step at the start of a context, a
// mix of decodes and chunks with lengths around every divisor and window, prompts at both ends of the
// context, the most requests, and random mixes. Of others: all corners of the symbols' bounds, then one
// symbol at a time around the divisors.
std::vector<std::vector<int64_t>> chosen_values(const TaskProgram& program);

}  // namespace mkc
