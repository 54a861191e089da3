// Search for settings that simulated steps take less time with.
//
// Requires: grids with regions, no events. Ensures: the program is left as it is; what is found can be asked
// for, and gives the same schedule then. Stands after fuse, before split and all that follows settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/changes.h"
#include "scheduler/events.h"
#include "scheduler/machine.h"

namespace mkc {

// Of -O3.
struct SearchBudget {
  double seconds = 10;  // no trial begins later
  uint32_t trials = UINT32_MAX;
};

struct SearchOptions {
  EventCosts costs{};
  Scheduler scheduler = Scheduler::kAuto;
  Asked asked{};                         // is followed, and never changed
  std::optional<SearchBudget> budget{};  // absent: only what kAuto tries
};

// A change that was tried last as the figures say.
struct Tried {
  Change change;
  std::string figures;  // its steps by those before it
};

struct SearchReport {
  Settings found;            // over placements without tickets, or by kDynamic with
  std::vector<Tried> tried;  // each change once
  uint32_t trials = 0;       // of -O3, made; with a budget of as many, the same is found again
  bool complete = false;     // none of its changes would gain more
  std::string figures;       // steps of the whole model by those without -O3; "": it found nothing
};

// kAuto tries to split products that are dealt out unevenly, and then to draw the attend, the expert and the
// product grids of the layers: a change is kept if the steps of scheduler/trials.h get shorter by 0.005 of
// the time it began with, and none takes more than 1.005 of that. With a budget, all changes of
// scheduler/changes.h are tried in turn by the same rule, for 0.001, until none gains. What that comes to is
// held against what was there before by steps of the whole model; what was found last is left out until
// their mean is not longer. Seconds are looked at between trials alone: what is found depends on their number
// only. Errors: asked for what is impossible; grids that wait for each other in a cycle.
Result<SearchReport> search(const TaskProgram& program, const Machine& machine, const SearchOptions& options);

// Of grids that a change was about, with its figures.
void add_reasons(const SearchReport& report, Schedule& schedule);

// "-O3: 14 trials, no other change gains more; …" for people.
std::string to_string(const SearchReport& report);

}  // namespace mkc
