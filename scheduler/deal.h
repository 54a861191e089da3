// The workers' streams: grids in one order, and the tasks of table grids dealt out. Internal to place.
#pragma once

#include "ir/schedule.h"
#include "scheduler/machine.h"

namespace mkc {

// Grids in an order in which each follows the grids it waits for; those with the longest path to the end of
// the step first. Errors: grids that wait for each other in a cycle.
Result<std::vector<GridId>> critical_path_order(const TaskProgram& program, const Machine& machine);

// A schedule with placements, streams and ring, but no plan of memory and counters; balance_grids as in
// PlaceOptions. Errors: those of critical_path_order.
Result<Schedule> deal(TaskProgram program, std::vector<Placement> placements, const Machine& machine,
                      uint32_t workers, bool balance_grids = false);

}  // namespace mkc
