#include "ir/schedule.h"

#include <algorithm>

#include "ir/values.h"

namespace mkc {

const char* placement_name(PlacementKind kind) {
  switch (kind) {
    case PlacementKind::kTable:
      return "table";
    case PlacementKind::kRange:
      return "range";
    case PlacementKind::kInline:
      return "inline";
    case PlacementKind::kQueue:
      return "queue";
    case PlacementKind::kReady:
      return "ready";
  }
  MKC_BUG("unknown placement");
}

const char* scheduler_name(Scheduler scheduler) {
  switch (scheduler) {
    case Scheduler::kStatic:
      return "static";
    case Scheduler::kDynamic:
      return "dynamic";
    case Scheduler::kAuto:
      return "auto";
  }
  MKC_BUG("unknown scheduler");
}

uint32_t most_cells(const TaskProgram& program, EventId event) {
  const std::vector<Bounds> symbols = symbol_bounds(program.symbols);
  int64_t cells = 1;
  for (const Expr& dim : program.events[event].dims) cells *= std::max<int64_t>(0, bounds(dim, symbols).hi);
  return static_cast<uint32_t>(cells);
}

bool keeps_log(const Schedule& schedule, EventId event) {
  for (GridId g : schedule.program.grids.ids()) {
    if (schedule.placements[g.index].kind != PlacementKind::kReady) continue;
    for (const Wait& wait : schedule.program.grids[g].waits)
      if (wait.event == event) return true;
  }
  return false;
}

std::string why_not_ready(const TaskProgram& program, GridId id) {
  const TaskGrid& grid = program.grids[id];
  if (multiplies(grid)) return "its loader must know the tasks before they are ready";
  if (grid.waits.size() != 1) return "its tasks wait for " + std::to_string(grid.waits.size()) + " events";
  if (grid.waits[0].lookup) return "it looks up its tasks";
  const Wait& wait = grid.waits[0];
  const Event& event = program.events[wait.event];
  for (uint32_t i = 0; i < wait.cell.size(); ++i)
    if (wait.cell[i] != coord(i) || grid.coords[i].extent != event.dims[i] || uses_coord(event.dims[i]))
      return "the cells of @" + event.name + " are not its first coordinates";
  // Of a ragged grid, rows have different numbers of tasks.
  if (!grid.coords.empty() && uses_coord(grid.coords.back().extent) &&
      wait.cell.size() + 1 >= grid.coords.size())
    return "the cells of @" + event.name + " have different numbers of its tasks";
  for (const ExprNode& node : event.expect.nodes)
    if (node.kind == ExprKind::kSymbol && program.symbols[SymbolId{static_cast<uint32_t>(node.value)}].routed)
      return "what the cells of @" + event.name + " expect is looked up";
  if (uses_coord(event.expect)) return "the cells of @" + event.name + " expect different counts";
  return "";
}

}  // namespace mkc
