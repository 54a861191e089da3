// Which grids workers draw, where that shortens simulated steps. Internal to place.
#pragma once

#include "scheduler/machine.h"
#include "scheduler/place.h"

namespace mkc {

// By GridId, from placements without tickets; the reasons name the figures. Each kind of a layer's grids is
// tried in turn, over the first layers and steps of one request, of several and of mixed lengths: it is drawn
// if these steps get shorter on the whole, and none longer. Errors: grids that wait for each other in a
// cycle.
Result<std::vector<Placement>> choose_by_cost(const TaskProgram& program, const Machine& machine,
                                              uint32_t workers, std::vector<Placement> placements);

}  // namespace mkc
