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

const char* activations_name(Activations activations) {
  switch (activations) {
    case Activations::kBf16:
      return "bf16";
    case Activations::kFp8:
      return "fp8";
    case Activations::kAuto:
      return "auto";
  }
  MKC_BUG("no such type of activations");
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

uint32_t max_cells(const TaskProgram& program, EventId event) {
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
  // Each row of a ragged grid has its own number of tasks.
  if (!grid.coords.empty() && uses_coord(grid.coords.back().extent) &&
      wait.cell.size() + 1 >= grid.coords.size())
    return "the cells of @" + event.name + " have different numbers of its tasks";
  for (const ExprNode& node : event.expect.nodes)
    if (node.kind == ExprKind::kSymbol && program.symbols[SymbolId{static_cast<uint32_t>(node.value)}].routed)
      return "what the cells of @" + event.name + " expect is looked up";
  if (uses_coord(event.expect)) return "the cells of @" + event.name + " expect different counts";
  return "";
}

namespace {

bool depends_on_symbols(const TaskGrid& grid) {
  return std::any_of(grid.coords.begin(), grid.coords.end(),
                     [](const Coord& c) { return uses_symbol(c.extent) || uses_coord(c.extent); });
}

// Tells whether each task of `source` notifies one cell. Strips that are taken together must notify
// consecutive cells.
bool notifies_single_cells(const TaskGrid& source, const Notify& notify) {
  for (const Range& range : notify.cells)
    if (!range.size.is_const(1)) return false;
  if (!multiplies_in_blocks(source) || notify.cells.empty()) return true;
  const Expr strip = coord(static_cast<uint32_t>(source.coords.size()) - 1);
  const auto last = notify.cells.end() - 1;
  return last->offset == strip && std::none_of(notify.cells.begin(), last,
                                               [](const Range& range) { return uses_coord(range.offset); });
}

// Tells whether cells that differ in the last dim alone expect different counts.
bool expects_by_last_dim(const Event& event) {
  return std::any_of(event.expect.nodes.begin(), event.expect.nodes.end(), [&](const ExprNode& node) {
    return node.kind == ExprKind::kCoord && static_cast<size_t>(node.value) + 1 == event.dims.size();
  });
}

bool is_awaited_by_others(const TaskProgram& program, GridId id, EventId event) {
  for (GridId other : program.grids.ids())
    for (const Wait& wait : program.grids[other].waits)
      if (wait.event == event && other != id) return true;
  return false;
}

// Tells whether a cell determines the task that waits for it. Each coordinate then is one of the cell's, or
// is always 0.
bool follows_from_cell(const TaskGrid& grid) {
  const std::vector<Expr>& cell = grid.waits[0].cell;
  for (uint32_t i = 0; i < grid.coords.size(); ++i)
    if (std::find(cell.begin(), cell.end(), coord(i)) == cell.end() && !grid.coords[i].extent.is_const(1))
      return false;
  return true;
}

}  // namespace

std::string why_not_inline(const TaskProgram& program, GridId id) {
  std::string not_merging =
      "it is no combine or split_k_reduce that only attend or split_k_partial tasks complete";
  const TaskGrid& grid = program.grids[id];
  const std::optional<BodyKind> merged = merged_body(grid);
  if (!merged || grid.waits.size() != 1 || grid.waits[0].lookup || streams(grid)) return not_merging;
  const EventId awaited = grid.waits[0].event;
  const std::string event = "@" + program.events[awaited].name;
  bool notified = false;
  for (const TaskGrid& source : program.grids)
    for (const Notify& notify : source.notifies) {
      if (notify.event != awaited) continue;
      if (source.body != *merged) return not_merging;
      if (!notifies_single_cells(source, notify))
        return "%" + source.name + " does not notify cell by cell of " + event;
      if (multiplies_in_blocks(source) && expects_by_last_dim(program.events[awaited]))
        return "%" + source.name + " completes several cells of " + event +
               " at once, which expect different counts";
      notified = true;
    }
  if (!notified) return not_merging;
  if (!follows_from_cell(grid)) return "its tasks do not follow from the cells of " + event;
  if (is_awaited_by_others(program, id, awaited)) return "others wait for " + event + ", too";
  return "";
}

std::string why_not_placed(const TaskProgram& program, GridId id, PlacementKind kind) {
  switch (kind) {
    case PlacementKind::kTable:
      return depends_on_symbols(program.grids[id]) ? "the number of its tasks is known at run time" : "";
    case PlacementKind::kInline:
      return why_not_inline(program, id);
    case PlacementKind::kReady:
      return why_not_ready(program, id);
    case PlacementKind::kRange:
    case PlacementKind::kQueue:
      return "";
  }
  MKC_BUG("unknown placement");
}

}  // namespace mkc
