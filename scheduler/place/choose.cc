#include "scheduler/place/choose.h"

#include <fmt/format.h>

#include <algorithm>

#include "scheduler/tiling/grid_pattern.h"

namespace mkc {
namespace {

bool has_symbolic_extent(const TaskGrid& grid) {
  return std::any_of(grid.coords.begin(), grid.coords.end(),
                     [](const Coord& c) { return uses_symbol(c.extent); });
}

Placement without_tickets(const TaskProgram& program, GridId id) {
  const TaskGrid& grid = program.grids[id];
  if (why_not_inline(program, id).empty())
    return {PlacementKind::kInline, fmt::format("merges what the {} tasks wrote: run by the last to arrive",
                                                body_name(*merged_body(grid)))};
  if (has_symbolic_extent(grid)) return {PlacementKind::kRange, "the number of tasks is known at run time"};
  return {PlacementKind::kTable, "the number of tasks is fixed"};
}

Status apply(const PlacementRule& rule, const TaskProgram& program, std::vector<Placement>& placements) {
  const Result<std::vector<GridId>> grids = matching_grids(program, rule.grids, rule.loc);
  if (!grids.ok()) return grids.error();
  for (GridId id : grids.value()) {
    if (const std::string reason = why_not_placed(program, id, rule.kind); !reason.empty())
      return error_at(rule.loc, fmt::format("%{} cannot be placed by {}: {}", program.grids[id].name,
                                            placement_name(rule.kind), reason));
    placements[id.index] = {rule.kind, "asked for"};
  }
  return {};
}

}  // namespace

// Ready placements follow the order in which cells are completed, so they need more than one cell.
Placement by_tickets(const TaskProgram& program, GridId id) {
  const TaskGrid& grid = program.grids[id];
  if (why_not_inline(program, id).empty()) return without_tickets(program, id);
  if (why_not_ready(program, id).empty() && !program.events[grid.waits[0].event].dims.empty())
    return {PlacementKind::kReady, "claimed as the cells of its event are completed"};
  return {PlacementKind::kQueue, "claimed by workers that are free"};
}

Result<std::vector<Placement>> choose_placements(const TaskProgram& program, Scheduler scheduler,
                                                 const std::vector<PlacementRule>& rules) {
  MKC_ASSERT(scheduler != Scheduler::kAuto, "what is best is for the search to find");
  std::vector<Placement> placements;
  for (GridId id : program.grids.ids())
    placements.push_back(scheduler == Scheduler::kDynamic ? by_tickets(program, id)
                                                          : without_tickets(program, id));
  for (const PlacementRule& rule : rules)
    if (Status status = apply(rule, program, placements); !status.ok()) return status.error();
  return placements;
}

}  // namespace mkc
