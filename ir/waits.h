// Which waits of a grid the tasks of a segment make together.
#pragma once

#include "ir/tasks.h"

namespace mkc {

// Whether all tasks of the grid wait for the same cell, so that the first of a segment does so for all of
// them. Where they notify nothing, the barriers of their waits are the only ones between one task and the
// next.
bool waits_once(const TaskGrid& grid, const Wait& wait);

}  // namespace mkc
