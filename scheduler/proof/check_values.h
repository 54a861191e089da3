// A schedule at chosen values, task by task: what finds a counterexample where the proof fails, and decides
// programs of few values. Internal to prove.
#pragma once

#include <vector>

#include "ir/schedule.h"

namespace mkc::proof {

struct ValuesChecked {
  std::vector<std::vector<int64_t>> values;  // symbol values, by SymbolId, of each check
  bool all = false;                          // of a program of few values: each of them
  uint64_t tasks = 0;                        // looked at, over all checks
  uint64_t orderings = 0;                    // task and worker-history comparisons made
};

// Walks chosen values, or all of a program without lists and caches that has few, until `task_budget` tasks
// have been looked at; the first two always. Errors name grid, task, event, cell, expected and found, and the
// values. Requires that the rules which do not depend on values hold.
Result<ValuesChecked> check_at_values(const Schedule& schedule, uint64_t task_budget = 250'000);

}  // namespace mkc::proof
