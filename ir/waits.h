// Tasks of a segment share waits.
#pragma once

#include "ir/tasks.h"

namespace mkc {

// Tells whether all tasks of the grid wait for the same cell. The first task of a segment then waits for all
// of them.
//
// Grids that notify nothing are excluded: the barriers of their waits are the only barriers between one task
// and the next.
bool waits_once(const TaskGrid& grid, const Wait& wait);

}  // namespace mkc
