// Search for settings that simulated steps take less time with.
//
// Requires: grids with regions, no events. Ensures: the program is left as it is; what is found can be asked
// for, and gives the same schedule then. Stands after fuse, before split and all that follows settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/candidates.h"
#include "scheduler/events.h"
#include "scheduler/machine.h"

namespace mkc {

// Of -O3.
struct SearchBudget {
  double seconds = 10;  // for all evaluations
  uint32_t evaluations = UINT32_MAX;
};

struct SearchOptions {
  EventCosts costs{};
  Scheduler scheduler = Scheduler::kAuto;
  Asked asked{};                         // is followed, and never changed
  std::optional<SearchBudget> budget{};  // absent: only what kAuto tries
};

struct Tried {
  Candidate candidate;
  std::string figures;  // steps with it, when it was tried last, by those before
};

struct SearchReport {
  Settings found;            // over placements without tickets, or by kDynamic with
  std::vector<Tried> tried;  // in their order; what is tried again stands last
  uint32_t evaluations = 0;  // of -O3, made; with a budget of as many, the same is found again
  bool complete = false;     // none of its changes would gain more
  std::string figures;       // steps of the whole model by those without -O3; "": it found nothing
};

// kAuto tries to split products that are grid_share out unevenly, or have too few strips for blocks of many
// tokens, and then to claim the attend, the expert and the product grids of the layers. A change is kept if
// the mean of the steps of scheduler/evaluate.h gets shorter by 0.005 of the time before the search, and none
// takes more than 1.01 of it. With a budget, all changes of scheduler/candidates.h are tried in turn by the
// same rule, for 0.001, until none gains. All of these together are then held against what was there before
// them by steps of the whole model: what was found last is left out while one takes more than 1.01, or the
// mean is less without; all, where that takes more than three. Seconds are looked at between evaluations
// alone: what is found depends on their number only. Errors: what is asked for is impossible; grids that wait
// for each other in a cycle.
Result<SearchReport> search(const TaskProgram& program, const Machine& machine, const SearchOptions& options);

// To the reasons of grids that changes were about: what was tried, and chosen.
void add_reasons(const SearchReport& report, Schedule& schedule);

// "-O3: 14 evaluations, no other candidate gains more; …" for people.
std::string to_string(const SearchReport& report);

}  // namespace mkc
