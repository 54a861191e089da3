// A schedule is checked at chosen values, task by task. The check finds a counterexample where the proof
// fails, and decides programs of few values. This header is internal to prove.
#pragma once

#include <vector>

#include "ir/schedule.h"

namespace mkc::proof {

struct ValuesChecked {
  std::vector<std::vector<int64_t>> values;  // symbol values of each check, by SymbolId
  bool all = false;                          // a program of few values was checked at all of them
  uint64_t tasks = 0;                        // tasks checked, over all checks
  uint64_t orderings = 0;                    // comparisons of tasks and worker histories
};

// Checks chosen values, or all values of a program that has few and no lists and caches. Stops when
// `task_budget` tasks have been checked, but checks at least two values. Errors name grid, task, event, cell,
// expected and found counts, and the values. Requires that the rules which do not depend on values hold.
Result<ValuesChecked> check_at_values(const Schedule& schedule, const Places* places = nullptr,
                                      uint64_t task_budget = 250'000);

}  // namespace mkc::proof
