// These rules hold for streams and placements, for all values. This header is internal to prove.
#pragma once

#include "scheduler/proof/order.h"

namespace mkc::proof {

// Checks that every task runs once. Table grids have constant extents, and the streams hold each of their
// tasks once. Each stream holds range and claimed grids once. No stream holds inline grids.
Status check_streams(const Context& c);

// Checks what starts tasks. The cell of its own coordinates starts an inline task, and some task completes
// that cell. The cells of their event start ready tasks, and all these cells are completed. No grid has more
// waits or notifications than its record holds.
Status check_starts(Context& c, const Sources& sources);

// Checks that lookups come after all tasks that write their tables.
Status check_lookups(Context& c, const Sources& sources);

// Checks that the ring has as many stages as a worker holds at once, each of a full tile. The loader then
// never waits for ever. The loader fills stages in stream order. Consumers free stages in that order before
// they wait for anything but events of earlier grids. No task of the step writes what streams, caches apart.
Status check_ring(const Context& c);

// Returns the least number of stages with which no worker deadlocks; 0 where nothing streams.
uint32_t min_stages(const TaskProgram& program);

}  // namespace mkc::proof
