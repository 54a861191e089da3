#include "scheduler/place/place.h"

#include "scheduler/place/assign.h"
#include "scheduler/place/choose.h"
#include "scheduler/place/workspace.h"

namespace mkc {

Result<Schedule> place(TaskProgram program, const Machine& machine, const PlaceOptions& options) {
  Result<std::vector<Placement>> placements = choose_placements(program, options.scheduler, options.rules);
  if (!placements.ok()) return placements.error();
  Result<Schedule> schedule = assign(std::move(program), std::move(placements.value()), machine,
                                     {options.workers, options.ring, options.balance_grids});
  if (!schedule.ok()) return schedule.error();
  plan_memory(schedule.value(), options.keep_activations);
  plan_counters(schedule.value());
  return schedule;
}

}  // namespace mkc
