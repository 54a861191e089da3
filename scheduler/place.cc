#include "scheduler/place.h"

#include "scheduler/assign.h"
#include "scheduler/choose.h"
#include "scheduler/workspace.h"

namespace mkc {

Result<Schedule> place(TaskProgram program, const Machine& machine, const PlaceOptions& options) {
  Result<std::vector<Placement>> placements = choose_placements(program, options.scheduler, options.rules);
  if (!placements.ok()) return placements.error();
  Result<Schedule> grid_share = assign(std::move(program), std::move(placements.value()), machine,
                                       {options.workers, options.ring, options.balance_grids});
  if (!grid_share.ok()) return grid_share.error();
  plan_memory(grid_share.value(), options.keep_activations);
  plan_counters(grid_share.value());
  return grid_share;
}

}  // namespace mkc
