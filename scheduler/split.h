// Products split along their columns.
//
// Requires: grids with regions, no events. Ensures: the same, with the same results to the bit: what is added
// up K slice by K slice is so in parts too. Stands after fuse, before events.
#pragma once

#include <string>

#include "ir/schedule.h"

namespace mkc {

// What keeps a grid from being split into this many parts, for people; "": nothing.
std::string why_not_split(const TaskProgram& program, const TaskGrid& grid, int64_t parts);

// In place of the product: a partial grid of its name, whose tasks multiply a strip with the columns of one
// part, part by part in their order, and leave the sums of each K slice; and NAME_reduce, which adds these in
// order and does what the product did with its sums. Requires that nothing keeps it from being split.
TaskProgram split_product(TaskProgram program, GridId product, int64_t parts);

// Every product as the last rule that fits it asks. Errors, at the rule: no grid has the name, or one that
// does cannot be split.
Result<TaskProgram> split_as_asked(TaskProgram program, const std::vector<SplitRule>& rules);

}  // namespace mkc
