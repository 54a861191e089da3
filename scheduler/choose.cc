#include "scheduler/choose.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "scheduler/choose_by_cost.h"

namespace mkc {
namespace {

bool has_symbolic_extent(const TaskGrid& grid) {
  return std::any_of(grid.coords.begin(), grid.coords.end(),
                     [](const Coord& c) { return uses_symbol(c.extent); });
}

bool streams(const TaskGrid& grid) {
  return std::any_of(grid.reads.begin(), grid.reads.end(), [](const Access& a) { return a.stream; });
}

// A combine whose one wait is completed by attend tasks can go to the last of them: its inputs are in that
// worker's reach and nobody has to poll.
bool may_run_inline(const TaskProgram& program, const TaskGrid& grid) {
  if (grid.body != BodyKind::kCombine || grid.waits.size() != 1 || streams(grid)) return false;
  bool notified = false;
  for (const TaskGrid& source : program.grids)
    for (const Notify& notify : source.notifies) {
      if (notify.event != grid.waits[0].event) continue;
      if (source.body != BodyKind::kAttend) return false;
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
      return may_run_inline(program, grid) ? "" : "it is no combine that only attend tasks complete";
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
    return {PlacementKind::kInline, "merges what the attend tasks wrote: run by the last to arrive"};
  if (has_symbolic_extent(grid)) return {PlacementKind::kRange, "the number of tasks is known at run time"};
  return {PlacementKind::kTable, "the number of tasks is fixed"};
}

Status apply(const PlacementRule& rule, const TaskProgram& program, std::vector<Placement>& placements) {
  std::vector<std::string> names;
  bool fits = false;
  for (GridId id : program.grids.ids()) {
    const std::string& name = program.grids[id].name;
    names.push_back(name);
    if (fnmatch(rule.grids.c_str(), name.c_str(), 0) != 0) continue;
    fits = true;
    if (const std::string reason = why_not(program, id, rule.kind); !reason.empty())
      return error_at(rule.loc,
                      fmt::format("%{} cannot be placed by {}: {}", name, placement_name(rule.kind), reason));
    placements[id.index] = {rule.kind, "asked for"};
  }
  if (fits) return {};
  const std::string near = nearest_name(rule.grids, names);
  return error_at(rule.loc, fmt::format("no grid is named '{}'{}", rule.grids,
                                        near.empty() ? "" : fmt::format(", did you mean '{}'?", near)));
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
                                                 const Machine& machine, uint32_t workers) {
  std::vector<Placement> placements;
  for (GridId id : program.grids.ids())
    placements.push_back(scheduler == Scheduler::kDynamic ? by_tickets(program, id)
                                                          : without_tickets(program, id));
  if (scheduler == Scheduler::kAuto) return choose_by_cost(program, machine, workers, std::move(placements));
  return placements;
}

Status apply_rules(const TaskProgram& program, const std::vector<PlacementRule>& rules,
                   std::vector<Placement>& placements) {
  for (const PlacementRule& rule : rules)
    if (Status status = apply(rule, program, placements); !status.ok()) return status;
  return {};
}

}  // namespace mkc
