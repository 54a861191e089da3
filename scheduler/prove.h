// The proof that a schedule may launch: no deadlock, counts that match, reads and overwrites in order.
// What is proved for all symbol values and what is checked at chosen ones: docs/scheduling.md.
#pragma once

#include <string>
#include <vector>

#include "ir/schedule.h"

namespace mkc {

struct ProveOptions {
  // Symbol values are added to the checks, corners first, until this many tasks have been looked at. The
  // first two (all lower, all upper bounds) are always checked.
  uint64_t task_budget = 250'000;
};

struct ProofReport {
  bool deadlock_free_for_all = false;         // for every symbol value, not only the checked ones
  std::vector<std::vector<int64_t>> checked;  // symbol values, by SymbolId, of each concrete check
  uint32_t values_left_out = 0;               // chosen, but beyond the budget
  uint64_t tasks = 0;                         // looked at, over all checks
  uint64_t orderings = 0;                     // task and worker-history comparisons made
};

// Refuses, with an error that names grid, task, event, cell, expected and found:
//   1. tasks that no stream holds, or more than one; inline and range grids placed wrongly
//   2. slots that are too small, leave their arena or overlap where nothing is ever shared; counters likewise
//   3. a stream without a ring, or streaming from what the step writes; a grid that looks something up
//   without
//      waiting for those who write that, or that a later grid overwrites
//   4. waits and notifications outside the event; cells whose expect is not the number of notifications
//   5. a cycle of dependence, stream order and ring reuse; lookups, where streams and events know no one
//   order
//      of the grids
//   6. reads of what nobody wrote before; reads and overwrites not ordered as in the sequential program, also
//      where tensors share memory
Result<ProofReport> prove(const Schedule& schedule, const ProveOptions& options = {});

// One line for people.
std::string to_string(const ProofReport& report, const Schedule& schedule);

}  // namespace mkc
