// Workers' streams hold grids in one order, and the tasks of table grids that each worker gets. This header
// is internal to place.
#pragma once

#include "ir/schedule.h"
#include "scheduler/machine/machine.h"

namespace mkc {

// Returns the grids in an order in which each follows the grids it waits for. Grids with the longest path to
// the end of the step come first. Errors: grids that wait for each other in a cycle.
Result<std::vector<GridId>> critical_path_order(const TaskProgram& program, const Machine& machine);

// The fields have the meaning that they have in PlaceOptions.
struct AssignOptions {
  uint32_t workers = 0;
  uint32_t ring = 0;
  bool balance_grids = false;
};

// Returns a schedule with placements, streams and ring, but without a plan of memory and counters. Errors:
// those of critical_path_order.
Result<Schedule> assign(TaskProgram program, std::vector<Placement> placements, const Machine& machine,
                        const AssignOptions& options);

}  // namespace mkc
