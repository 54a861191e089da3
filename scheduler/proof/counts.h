// Rule: every cell expects as many notifications as its event's grids give it. Internal to prove.
#pragma once

#include "scheduler/proof/along.h"

namespace mkc::proof {

// A notification of one grid, as its tasks' boxes move along the dims of the event.
struct Source {
  GridId grid;
  std::vector<Along> dims;  // by dim of the event
  bool every_cell = false;  // each task notifies every cell
  bool some_cell = false;   // each task notifies at least one cell
  bool each_heard = false;  // every cell is notified by at least one of its tasks
};

// By EventId: who notifies it.
using Sources = std::vector<std::vector<Source>>;

// Finds the sources of all events, and shows that the counts agree for all values. Cells lie within their
// events by V24 and V25 of the verifier.
Result<Sources> check_counts(Context& c);

}  // namespace mkc::proof
