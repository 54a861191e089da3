// Products can be split along their columns.
//
// The pass requires grids with regions and no events, and ensures the same. Results stay the same to the bit:
// a product sums K slice by K slice, whether or not it is split. The pass runs after fuse and before events.
#pragma once

#include <string>

#include "ir/schedule.h"

namespace mkc {

// Returns what keeps a grid from being split into this many parts, for people; "" where nothing does.
std::string why_not_split(const TaskProgram& program, const TaskGrid& grid, int64_t parts);

// Splits every product as the last rule that fits it asks. Errors, at the rule: no grid fits the name, or a
// grid that fits cannot be split.
Result<TaskProgram> split_as_asked(TaskProgram program, const std::vector<SplitRule>& rules);

}  // namespace mkc
