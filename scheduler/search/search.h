// The search finds settings that make simulated steps faster.
//
// The search requires grids with regions and no events. The search leaves the program as it is. Rules can ask
// for the settings that it finds, and the schedule is the same then. The search runs after fuse and before
// split and all other passes that follow settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/events/events.h"
#include "scheduler/machine/machine.h"
#include "scheduler/search/candidates.h"

namespace mkc {

// SearchBudget is the budget of -O3.
struct SearchBudget {
  double seconds = 10;  // time for all evaluations
  uint32_t evaluations = UINT32_MAX;
};

struct SearchOptions {
  EventCosts costs{};
  Scheduler scheduler = Scheduler::kAuto;
  Asked asked{};  // settings that the user asks for; the search follows and never changes them
  std::optional<SearchBudget> budget{};  // absent: only the candidates of kAuto
};

struct Tried {
  Candidate candidate;
  // Times of the steps with the candidate, relative to those before it, at its last evaluation.
  std::string figures;
};

struct SearchReport {
  Settings found;  // settings over placements without tickets, or over those of kDynamic
  // The candidates are in evaluation order. A candidate that is evaluated again moves to the end.
  std::vector<Tried> tried;
  // Evaluations that -O3 made. A budget of this many evaluations finds the same settings again.
  uint32_t evaluations = 0;
  bool complete = false;  // no candidate gains more
  // Times of the whole model's steps, relative to those without -O3. "": -O3 found nothing.
  std::string figures;
};

// Searches settings for the program.
//
// kAuto first tries to split two kinds of products. Products of the first kind have unevenly assigned strips,
// products of the second kind too few strips for blocks of many tokens. kAuto then tries to claim the attend,
// expert and product grids of the layers by ticket. A candidate is accepted if it meets two conditions. The
// mean of the steps of scheduler/search/evaluate.h is shorter by 0.005 of the time before the search. No step
// takes more than 1.01 of that time.
//
// A budget adds the search of -O3. -O3 evaluates all candidates of scheduler/search/candidates.h in turn by
// the same rule, for a gain of 0.001, until none gains. The accepted candidates are then compared together,
// on steps of the whole model, with the settings before them. Candidates are reverted newest first while a
// step regresses by more than 1%, or while the mean is lower without them. All candidates are reverted where
// more than three would have to be.
//
// Seconds are checked only between evaluations, so the result depends only on the number of evaluations.
// Errors: settings that are impossible; grids that wait for each other in a cycle.
Result<SearchReport> search(const TaskProgram& program, const Machine& machine, const SearchOptions& options);

// Adds the evaluated candidates and the choice to the reasons of the grids that they concern.
void add_reasons(const SearchReport& report, Schedule& schedule);

// Returns text for people: "-O3: 14 evaluations, no other candidate gains more; …".
std::string to_string(const SearchReport& report);

}  // namespace mkc
