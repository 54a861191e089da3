// Products split as asked, and where that shortens simulated steps.
//
// Requires, ensures, and where it stands: as scheduler/split.h.
#pragma once

#include <string>
#include <vector>

#include "scheduler/events.h"
#include "scheduler/machine.h"
#include "scheduler/split.h"

namespace mkc {

struct SplitOptions {
  EventCosts costs{};
  Scheduler scheduler = Scheduler::kStatic;  // only kAuto chooses by cost
  bool thorough = false;  // tries all products of the layers, not only those that are dealt out unevenly
  std::vector<SplitRule> rules{};  // are followed; what they fit is not tried
};

// A kind of a layer's products that was tried.
struct SplitChoice {
  std::string grids;  // "l*.down"
  int64_t parts = 1;
  std::string reason;  // for people
};

// Tries each kind of a layer's products in turn, in 2 and in 4 parts, over the first layers and the steps of
// scheduler/trials.h: the shortest that wins is kept. `choices`, if given: what was tried. Errors: those of
// split_as_asked and derive_events.
Result<TaskProgram> split_products(TaskProgram program, const Machine& machine, const SplitOptions& options,
                                   std::vector<SplitChoice>* choices = nullptr);

}  // namespace mkc
