#include "scheduler/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "scheduler/named.h"

namespace mkc {
namespace {

bool has_symbolic_extent(const TaskGrid& grid) {
  return std::any_of(grid.coords.begin(), grid.coords.end(),
                     [](const Coord& c) { return uses_symbol(c.extent); });
}

// Whose parts a grid merges; nothing where it does no such thing.
std::optional<BodyKind> merged_body(const TaskGrid& grid) {
  if (grid.body == BodyKind::kCombine) return BodyKind::kAttend;
  if (grid.body == BodyKind::kFinish) return BodyKind::kPartial;
  return {};
}

// What merges parts, and waits for these alone, can go to the last of them: its inputs are in that worker's
// reach and nobody has to poll.
bool may_run_inline(const TaskProgram& program, const TaskGrid& grid) {
  const std::optional<BodyKind> merged = merged_body(grid);
  if (!merged || grid.waits.size() != 1 || streams(grid)) return false;
  bool notified = false;
  for (const TaskGrid& source : program.grids)
    for (const Notify& notify : source.notifies) {
      if (notify.event != grid.waits[0].event) continue;
      if (source.body != *merged) return false;
      notified = true;
    }
  return notified;
}

// What keeps the grid from being placed so; "": nothing.
std::string why_not(const TaskProgram& program, GridId id, PlacementKind kind) {
  const TaskGrid& grid = program.grids[id];
  switch (kind) {
    case PlacementKind::kTable:
      return has_symbolic_extent(grid) ? "the number of its tasks is known at run time" : "";
    case PlacementKind::kInline:
      return may_run_inline(program, grid)
                 ? ""
                 : "it is no combine or finish that only attend or partial tasks complete";
    case PlacementKind::kReady:
      return why_not_ready(program, id);
    case PlacementKind::kRange:
    case PlacementKind::kQueue:
      return "";
  }
  MKC_BUG("unknown placement");
}

Placement without_tickets(const TaskProgram& program, GridId id) {
  const TaskGrid& grid = program.grids[id];
  if (may_run_inline(program, grid))
    return {PlacementKind::kInline, fmt::format("merges what the {} tasks wrote: run by the last to arrive",
                                                body_name(*merged_body(grid)))};
  if (has_symbolic_extent(grid)) return {PlacementKind::kRange, "the number of tasks is known at run time"};
  return {PlacementKind::kTable, "the number of tasks is fixed"};
}

Status apply(const PlacementRule& rule, const TaskProgram& program, std::vector<Placement>& placements) {
  const Result<std::vector<GridId>> grids = grids_named(program, rule.grids, rule.loc);
  if (!grids.ok()) return grids.error();
  for (GridId id : grids.value()) {
    if (const std::string reason = why_not(program, id, rule.kind); !reason.empty())
      return error_at(rule.loc, fmt::format("%{} cannot be placed by {}: {}", program.grids[id].name,
                                            placement_name(rule.kind), reason));
    placements[id.index] = {rule.kind, "asked for"};
  }
  return {};
}

}  // namespace

// In the order in which cells are completed, where there is more than one.
Placement by_tickets(const TaskProgram& program, GridId id) {
  const TaskGrid& grid = program.grids[id];
  if (may_run_inline(program, grid)) return without_tickets(program, id);
  if (why_not_ready(program, id).empty() && !program.events[grid.waits[0].event].dims.empty())
    return {PlacementKind::kReady, "drawn as the cells of its event are completed"};
  return {PlacementKind::kQueue, "drawn by workers that are free"};
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
