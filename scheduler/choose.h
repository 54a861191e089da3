// Which kind of placement every grid gets, and why. Internal to place.
#pragma once

#include "ir/schedule.h"
#include "scheduler/machine.h"

namespace mkc {

// By GridId. Errors: those of choose_by_cost.
Result<std::vector<Placement>> choose_placements(const TaskProgram& program, Scheduler scheduler,
                                                 const Machine& machine, uint32_t workers);

// Of a grid whose tasks are to be drawn, where they can be.
Placement by_tickets(const TaskProgram& program, GridId id);

// What the user asks for. Errors: those of place() about rules.
Status apply_rules(const TaskProgram& program, const std::vector<PlacementRule>& rules,
                   std::vector<Placement>& placements);

}  // namespace mkc
