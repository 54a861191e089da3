// The rule says that every cell expects as many notifications as the grids of its event give it. This header
// is internal to prove.
#pragma once

#include "scheduler/proof/along.h"

namespace mkc::proof {

// Source has the notifications of one grid for one event, by the movement of its tasks' boxes along the dims
// of the event.
struct Source {
  GridId grid;
  std::vector<Along> dims;  // by dim of the event
  bool every_cell = false;  // each task notifies every cell
  bool some_cell = false;   // each task notifies at least one cell
  bool each_heard = false;  // every cell is notified by at least one of its tasks
};

// Sources has the grids that notify each event, by EventId.
using Sources = std::vector<std::vector<Source>>;

// Returns the grids that notify each event, and nothing that is known of their tasks.
Sources notifiers_of(const TaskProgram& program);

// Finds the sources of all events and proves that the counts agree for all values. V24 and V25 of the
// verifier ensure that cells lie within their events.
Result<Sources> check_counts(Context& c);

}  // namespace mkc::proof
