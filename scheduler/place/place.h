// Placement turns a task program with events into a schedule.
//
// The pass requires a verified program with events. The pass ensures a schedule that prove() accepts. The
// pass runs after events and before prove and codegen.
#pragma once

#include "ir/schedule.h"
#include "scheduler/machine/machine.h"

namespace mkc {

struct PlaceOptions {
  uint32_t workers = 0;                      // 0: as many as the machine has
  bool balance_grids = false;                // level the bytes of each grid alone, for comparison
  Scheduler scheduler = Scheduler::kStatic;  // kStatic or kDynamic; scheduler/search/search.h decides kAuto
  // No activation shares memory with another, so that all can be read after a step.
  bool keep_activations = false;
  // Rules win over the scheduler. The last rule that fits a grid wins over the others.
  std::vector<PlacementRule> rules{};
  uint32_t ring = 0;  // ring stages; 0: all that the machine has room for
};

// Orders the grids by critical path and places each one (scheduler/place/choose.h); the schedule keeps the
// reasons. Assigns the strips of table grids so that streamed bytes stay level across workers at every point
// of the stream. Plans ring, memory and counters. Takes O(tasks log workers) time. Errors: grids that wait
// for each other in a cycle; rules that fit no grid or ask for the impossible.
Result<Schedule> place(TaskProgram program, const Machine& machine, const PlaceOptions& options = {});

}  // namespace mkc
