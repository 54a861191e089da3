// Which kind of placement every grid gets, and why. Internal to place and search.
#pragma once

#include "ir/schedule.h"

namespace mkc {

// By GridId: as the last rule that fits asks, or else the scheduler, which is not kAuto. Errors: those of
// place() about rules.
Result<std::vector<Placement>> choose_placements(const TaskProgram& program, Scheduler scheduler,
                                                 const std::vector<PlacementRule>& rules);

// Of a grid whose tasks are to be claimed, where they can be.
Placement by_tickets(const TaskProgram& program, GridId id);

}  // namespace mkc
