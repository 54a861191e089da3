// Which kind of placement every grid gets, and why. Internal to place.
#pragma once

#include "ir/schedule.h"

namespace mkc {

// By GridId. Errors: those of place() about rules.
Result<std::vector<Placement>> choose_placements(const TaskProgram& program, Scheduler scheduler,
                                                 const std::vector<PlacementRule>& rules);

}  // namespace mkc
