#include "scheduler/place.h"

#include "scheduler/choose.h"
#include "scheduler/deal.h"
#include "scheduler/workspace.h"

namespace mkc {

Result<Schedule> place(TaskProgram program, const Machine& machine, const PlaceOptions& options) {
  Result<std::vector<Placement>> placements = choose_placements(program, options.scheduler, options.rules);
  if (!placements.ok()) return placements.error();
  Result<Schedule> dealt = deal(std::move(program), std::move(placements.value()), machine,
                                {options.workers, options.ring, options.balance_grids});
  if (!dealt.ok()) return dealt.error();
  plan_memory(dealt.value(), options.keep_activations);
  plan_counters(dealt.value());
  return dealt;
}

}  // namespace mkc
