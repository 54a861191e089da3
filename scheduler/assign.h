// The workers' streams: grids in one order, and the tasks of table grids grid_share out. Internal to place.
#pragma once

#include "ir/schedule.h"
#include "scheduler/machine.h"

namespace mkc {

// Grids in an order in which each follows the grids it waits for; those with the longest path to the end of
// the step first. Errors: grids that wait for each other in a cycle.
Result<std::vector<GridId>> critical_path_order(const TaskProgram& program, const Machine& machine);

// As in PlaceOptions.
struct DealOptions {
  uint32_t workers = 0;
  uint32_t ring = 0;
  bool balance_grids = false;
};

// A schedule with placements, streams and ring, but no plan of memory and counters. Errors: those of
// critical_path_order.
Result<Schedule> assign(TaskProgram program, std::vector<Placement> placements, const Machine& machine,
                        const DealOptions& options);

}  // namespace mkc
