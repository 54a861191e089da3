// The search of -O3: placements that simulated steps take less time with.
#pragma once

#include <string>
#include <vector>

#include "ir/schedule.h"
#include "scheduler/machine.h"
#include "scheduler/wide_by_cost.h"

namespace mkc {

struct SearchBudget {
  double seconds = 10;  // no trial begins later
  uint32_t trials = UINT32_MAX;
  bool wide = false;  // warpgroups may multiply from fewer tokens on; tried first, and not counted
};

struct SearchReport {
  uint32_t trials = 0;                // made; with a budget of as many, the same is found again
  bool complete = false;              // no change of one kind of grid would gain more
  std::vector<PlacementRule> chosen;  // by pattern, other than without the search
  std::string figures;  // steps of the whole model by those without the search; "": nothing chosen
  WideChoice wide{};
};

// Changes the placements of one kind of a layer's grids after the other, as long as the steps of the first
// layers get shorter on the whole and none takes more than 1.005 of the time it began with; and keeps that if
// it is so for the steps of the whole model. Grids that a rule of `asked` fits are left as they are. The time
// is looked at between trials alone: what is found depends on their number only. Errors: those of deal().
Result<SearchReport> search_placements(const TaskProgram& program, const Machine& machine, uint32_t workers,
                                       const std::vector<PlacementRule>& asked, const SearchBudget& budget,
                                       std::vector<Placement>& placements);

// "14 trials, no change gains more; …" for people.
std::string to_string(const SearchReport& report);

}  // namespace mkc
