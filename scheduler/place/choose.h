// Every grid gets a kind of placement, with its reason. This header is internal to place and search.
#pragma once

#include "ir/schedule.h"

namespace mkc {

// Returns the placements by GridId. The last rule that fits a grid decides, else the scheduler. Requires a
// scheduler other than kAuto. Errors: those of place() about rules.
Result<std::vector<Placement>> choose_placements(const TaskProgram& program, Scheduler scheduler,
                                                 const std::vector<PlacementRule>& rules);

// Returns a placement by ticket where the grid allows one.
Placement by_tickets(const TaskProgram& program, GridId id);

}  // namespace mkc
