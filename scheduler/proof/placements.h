// Rules of what streams and placements say, for all values. Internal to prove.
#pragma once

#include "scheduler/proof/order.h"

namespace mkc::proof {

// Every task runs once: table grids have constant extents and stand in streams once task by task; range and
// claimed grids stand in each stream once; inline grids in none.
Status check_streams(const Context& c);

// Inline tasks are started by the cell of their own coordinates, which somebody completes; ready tasks by the
// cells of their event, all of which are completed; no grid has more waits or notifications than its record.
Status check_starts(Context& c, const Sources& sources);

// Look-ups come after everybody who writes their tables.
Status check_lookups(Context& c, const Sources& sources);

// The ring has as many stages as a worker holds at once, of full tiles. Then the loader never waits for ever:
// it fills stages in stream order, and consumers free them in that order before they wait for anything but
// events of earlier grids. What streams is written by no task of the step, caches apart.
Status check_ring(const Context& c);

// The least number of stages with which no worker deadlocks; 0: nothing streams.
uint32_t min_stages(const TaskProgram& program);

}  // namespace mkc::proof
