// Placement: from a task program with events to a schedule.
//
// Requires: a verified program with events. Ensures: a schedule that prove() accepts. Stands after events,
// before prove and codegen.
#pragma once

#include "ir/schedule.h"
#include "scheduler/machine.h"

namespace mkc {

struct PlaceOptions {
  uint32_t workers = 0;                      // 0: as many as the machine has
  bool balance_grids = false;                // level the bytes of each grid alone, for comparison
  Scheduler scheduler = Scheduler::kStatic;  // or kDynamic: kAuto is for scheduler/search.h to decide
  bool keep_activations = false;             // none shares memory with another: all can be read after a step
  std::vector<PlacementRule> rules{};        // win over the scheduler; of several for a grid the last
  uint32_t ring = 0;                         // stages; 0: all that the machine has room for
};

// Orders the grids by critical path, places every one (scheduler/choose.h; the reason is kept), deals the
// strips of table grids out so that streamed bytes stay level across workers at every point of the stream,
// and plans ring, memory and counters. O(tasks log workers). Errors: grids that wait for each other in a
// cycle; rules that fit no grid, or ask for what is impossible.
Result<Schedule> place(TaskProgram program, const Machine& machine, const PlaceOptions& options = {});

// Grids in an order in which each follows the grids it waits for; those with the longest path to the end of
// the step first.
Result<std::vector<GridId>> critical_path_order(const TaskProgram& program, const Machine& machine);

}  // namespace mkc
