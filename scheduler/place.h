// Placement: from a task program with events to a schedule.
//
// Requires: a verified program with events. Ensures: a schedule that prove() accepts. Stands after events,
// before prove and codegen.
#pragma once

#include "ir/schedule.h"
#include "scheduler/machine.h"

namespace mkc {

struct PlaceOptions {
  uint32_t workers = 0;        // 0: as many as the machine has
  bool balance_grids = false;  // level the bytes of each grid alone, for comparison
};

// Orders the grids by critical path, places every one by table, range or inline (the reason is kept), deals
// the strips of table grids out so that streamed bytes stay level across workers at every point of the
// stream, and plans ring, memory and counters. O(tasks log workers).
// Errors: grids that wait for each other in a cycle.
Result<Schedule> place(TaskProgram program, const Machine& machine, const PlaceOptions& options = {});

// Grids in an order in which each follows the grids it waits for; those with the longest path to the end of
// the step first.
Result<std::vector<GridId>> critical_path_order(const TaskProgram& program, const Machine& machine);

}  // namespace mkc
