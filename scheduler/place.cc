#include "scheduler/place.h"

#include "scheduler/choose.h"
#include "scheduler/deal.h"
#include "scheduler/wide_by_cost.h"
#include "scheduler/workspace.h"

namespace mkc {

Result<Schedule> place(TaskProgram program, const Machine& machine, const PlaceOptions& options,
                       SearchReport* report) {
  const uint32_t workers = options.workers != 0 ? options.workers : machine.workers;
  WideChoice wide;
  if (options.search && options.search->wide) {
    Result<WideChoice> chosen = choose_wide(program, machine, workers);
    if (!chosen.ok()) return chosen.error();
    wide = std::move(chosen.value());
  }
  Result<std::vector<Placement>> placements = choose_placements(program, options.scheduler, machine, workers);
  if (!placements.ok()) return placements.error();
  if (Status status = apply_rules(program, options.rules, placements.value()); !status.ok())
    return status.error();
  if (options.search) {
    Result<SearchReport> found =
        search_placements(program, machine, workers, options.rules, *options.search, placements.value());
    if (!found.ok()) return found.error();
    found.value().wide = std::move(wide);
    if (report) *report = std::move(found.value());
  }
  Result<Schedule> dealt =
      deal(std::move(program), std::move(placements.value()), machine, workers, options.balance_grids);
  if (!dealt.ok()) return dealt.error();
  plan_memory(dealt.value(), options.keep_activations);
  plan_counters(dealt.value());
  return dealt;
}

}  // namespace mkc
