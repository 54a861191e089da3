#include "scheduler/proof/order.h"

#include <fmt/format.h>

#include <algorithm>

#include "scheduler/machine/order.h"

namespace mkc::proof {
namespace {

// Tells whether each cell of the event is awaited by some task of the grid. A different coordinate must walk
// each dim.
bool awaits_every_cell(Context& c, GridId g, const Wait& wait) {
  const TaskGrid& grid = c.p.grids[g];
  const Event& event = c.p.events[wait.event];
  if (!c.never_empty(g)) return false;
  std::vector<bool> used(grid.coords.size(), false);
  for (size_t d = 0; d < event.dims.size(); ++d) {
    const Along cells = along(c, g, {wait.cell[d], 1}, event.dims[d]);
    if (cells.kind == Along::Kind::kWhole) continue;
    const bool each =
        cells.kind == Along::Kind::kEach && c.forms.equal(grid.coords[cells.coord].extent, event.dims[d]);
    if (!each && cells.kind != Along::Kind::kTable) return false;
    if (cells.moves()) {
      if (used[cells.coord]) return false;
      used[cells.coord] = true;
    }
    if (each) continue;
    std::vector<bool> awaited(static_cast<size_t>(event.dims[d].constant()), false);
    for (const Interval& i : cells.intervals)
      if (i.first < i.second) awaited[static_cast<size_t>(i.first)] = true;
    if (std::find(awaited.begin(), awaited.end(), false) != awaited.end()) return false;
  }
  return true;
}

// Adds the guarantees of one wait of b. The sources of its event must have been processed before.
void add_wait(Context& c, const Sources& sources, GridId b, const Wait& wait, Order& order) {
  const bool every = awaits_every_cell(c, b, wait);
  const bool heard = lower_bound(c.p.events[wait.event].expect, c.cells[wait.event.index]) >= 1;
  GridSet before_all(c.p.grids.size());
  before_all.set();
  for (const Source& source : sources[wait.event.index]) {
    const uint32_t a = source.grid.index;
    GridSet reaches_a = order.reaches[a];
    reaches_a.set(a);
    before_all &= order.before[a];
    if (source.every_cell) order.before[b.index] |= reaches_a;
    const bool has_task = source.each_heard || (source.every_cell && c.never_empty(source.grid));
    if (has_task) order.before[b.index] |= order.before[a];
    if (every && source.some_cell) order.reaches[b.index] |= reaches_a;
  }
  // The grids before every source precede the cell, whichever source completes it.
  if (heard && !sources[wait.event.index].empty()) order.before[b.index] |= before_all;
}

Error cycle_error(Context& c, const std::vector<uint32_t>& cycle) {
  std::string text;
  std::vector<uint32_t> closed = cycle;
  std::rotate(closed.begin(), std::min_element(closed.begin(), closed.end()), closed.end());
  closed.push_back(closed.front());
  for (const uint32_t g : closed)
    text += fmt::format("{}%{}", text.empty() ? "" : " -> ", c.p.grids[GridId{g}].name);
  return c.unproved(subject_of(GridId{closed.front()}),
                    "the grids have no one order, so that a step may deadlock: " + text);
}

// Tells whether a task of a notifies, along a dim, the cell that a task of b waits for, wherever their
// regions overlap.
bool cells_follow(Context& c, const Along& notified, GridId b, const Expr& awaited, const Expr& dim,
                  const std::vector<Along>& from, const std::vector<Along>& to) {
  if (notified.kind == Along::Kind::kWhole) return true;
  const Along cell = along(c, b, {awaited, 1}, dim);
  for (size_t d = 0; d < from.size(); ++d) {
    if (!from[d].moves() || from[d].coord != notified.coord || to[d].coord != cell.coord) continue;
    if (notified.kind == Along::Kind::kEach && cell.kind == Along::Kind::kEach &&
        meet_only_if_equal(from[d], to[d]))
      return true;
    const bool tables = notified.kind == Along::Kind::kTable && cell.kind == Along::Kind::kTable &&
                        from[d].kind == Along::Kind::kTable && to[d].kind == Along::Kind::kTable;
    if (!tables) continue;
    bool holds = true;
    for (size_t i = 0; i < from[d].intervals.size() && holds; ++i)
      for (size_t j = 0; j < to[d].intervals.size() && holds; ++j) {
        const Interval &x = from[d].intervals[i], &y = to[d].intervals[j];
        const bool meet = std::max(x.first, y.first) < std::min(x.second, y.second);
        const Interval &n = notified.intervals[i], &w = cell.intervals[j];
        holds = !meet || (n.first <= w.first && w.first < n.second);
      }
    if (holds) return true;
  }
  return false;
}

}  // namespace

Result<Order> check_order(Context& c, const Sources& sources) {
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  for (const auto& stream : c.s.streams)
    for (size_t i = 1; i < stream.size(); ++i)
      if (stream[i - 1].grid != stream[i].grid)
        edges.emplace_back(stream[i - 1].grid.index, stream[i].grid.index);
  for (GridId g : c.p.grids.ids())
    for (const Wait& wait : c.p.grids[g].waits)
      for (const Source& source : sources[wait.event.index]) edges.emplace_back(source.grid.index, g.index);
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  const uint32_t grids = c.p.grids.size();
  TopologicalOrder sorted = topological_order(grids, edges);
  if (!sorted.cycle.empty()) return cycle_error(c, sorted.cycle);

  Order order{std::move(sorted.order), std::vector(grids, GridSet(grids)),
              std::vector(grids, GridSet(grids))};
  for (const uint32_t b : order.sorted) {
    for (const Wait& wait : c.p.grids[GridId{b}].waits) add_wait(c, sources, GridId{b}, wait, order);
    if (c.never_empty(GridId{b})) order.reaches[b] |= order.before[b];
  }
  ++c.report.symbolic;
  return order;
}

bool ordered_where_they_meet(Context& c, const Sources& sources, const Order& order, GridId a,
                             const std::vector<Along>& from, GridId b, const std::vector<Along>& to) {
  if (order.before[b.index][a.index]) return true;
  for (const Wait& wait : c.p.grids[b].waits)
    for (const Source& source : sources[wait.event.index]) {
      if (source.grid != a) continue;
      bool follows = true;
      for (size_t d = 0; d < source.dims.size() && follows; ++d)
        follows = cells_follow(c, source.dims[d], b, wait.cell[d], c.p.events[wait.event].dims[d], from, to);
      if (follows) return true;
    }
  return false;
}

}  // namespace mkc::proof
