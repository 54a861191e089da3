#include "scheduler/events_map.h"

#include <algorithm>

namespace mkc {
namespace {

// The factor of an expression `factor * c`, c * factor or c.
std::optional<int64_t> linear_factor(const Expr& e, uint32_t& position) {
  if (e.nodes.size() == 1 && e.nodes[0].kind == ExprKind::kCoord) {
    position = static_cast<uint32_t>(e.nodes[0].value);
    return 1;
  }
  if (e.nodes.size() != 3 || e.nodes[2].kind != ExprKind::kMul) return std::nullopt;
  for (size_t i : {0, 1})
    if (e.nodes[i].kind == ExprKind::kConst && e.nodes[1 - i].kind == ExprKind::kCoord) {
      position = static_cast<uint32_t>(e.nodes[1 - i].value);
      return e.nodes[i].value;
    }
  return std::nullopt;
}

// Whether the strips cover the dim from end to end without gaps, and each has a part of it.
bool cover(const Strips& s) {
  if (!s.extent.is_const() || !s.dim.is_const()) return false;
  const int64_t last = s.step * (s.extent.constant() - 1) + s.start, dim = s.dim.constant();
  return s.start <= 0 && s.start + s.size >= 1 && s.size >= s.step && last + s.size >= dim && last < dim;
}

}  // namespace

std::optional<Strips> strips_of(const Range& range, const TaskGrid& grid, const Expr& dim) {
  Strips s;
  s.extent = Expr(0);
  s.dim = dim;
  // offset = factor * c, or factor * c + constant
  Expr moving = range.offset;
  const auto& nodes = range.offset.nodes;
  if (nodes.size() >= 3 && nodes.back().kind == ExprKind::kAdd &&
      nodes[nodes.size() - 2].kind == ExprKind::kConst) {
    s.start = nodes[nodes.size() - 2].value;
    moving.nodes.assign(nodes.begin(), nodes.end() - 2);
  }
  const std::optional<int64_t> factor = linear_factor(moving, s.coord);
  if (!factor || *factor < 1) return std::nullopt;
  s.step = *factor;
  s.extent = grid.coords[s.coord].extent;
  if (range.size.is_const())
    s.size = range.size.constant();
  else if (dim.is_const() && range.size.nodes[0].kind == ExprKind::kConst &&
           range.size == min(range.size.nodes[0].value, dim - range.offset))
    s.size = range.size.nodes[0].value;  // cut off at the end of the dim
  else
    return std::nullopt;
  return s.size >= 1 ? std::optional(s) : std::nullopt;
}

Expr tasks_of(const TaskGrid& grid) {
  Expr count = 1;
  for (const Coord& c : grid.coords) count = count * c.extent;
  return count;
}

NotifyMap notify_all(const TaskProgram& program, GridId grid, const Expr& cells) {
  NotifyMap map;
  map.grid = grid;
  map.cells = {0, cells};
  map.expect = tasks_of(program.grids[grid]);
  map.cells_per_task = cells.is_const() ? static_cast<double>(cells.constant()) : 1;
  return map;
}

NotifyMap notify_meeting(const TaskProgram& program, GridId grid, const Strips& from, const Strips& to) {
  NotifyMap map;
  map.grid = grid;
  map.partial = true;
  map.complete = cover(from) && cover(to);
  map.cells_per_task = std::max(1.0, static_cast<double>(from.size + to.size) / static_cast<double>(to.step));
  Expr others = 1;  // tasks that differ in coordinates the strip does not depend on
  const TaskGrid& producer = program.grids[grid];
  for (uint32_t c = 0; c < producer.coords.size(); ++c)
    if (c != from.coord) others = others * producer.coords[c].extent;

  const Expr j = coord(from.coord), cell = coord(0);
  const bool aligned = from.start == 0 && to.start == 0 && from.size == from.step && to.size == to.step;
  if (aligned && from.step == to.step && from.extent == to.extent) {
    map.cells = {j, 1};
    map.expect = others;
    map.cells_per_task = 1;
    return map;
  }
  const int64_t ratio = to.step / from.step;
  if (aligned && map.complete && to.step % from.step == 0 && from.extent == to.extent * ratio) {
    map.cells = {floor_div(j, ratio), 1};
    map.expect = others * ratio;
    map.cells_per_task = 1;
    return map;
  }
  // Strips [a, a + m) and [b, b + n) meet where a < b + n and b < a + m. Where both cover the dim each meets
  // at least one, which interval arithmetic alone would not show.
  const int64_t least = map.complete ? 1 : 0;
  const Expr at = from.step * j + from.start, wanted = to.step * cell + to.start;
  const Expr first_cell = max(0, floor_div(at - to.start - to.size, to.step) + 1);
  const Expr end_cell = min(to.extent, ceil_div(at + from.size - to.start, to.step));
  const Expr first_task = max(0, floor_div(wanted - from.start - from.size, from.step) + 1);
  const Expr end_task = min(from.extent, ceil_div(wanted + to.size - from.start, from.step));
  map.cells = {first_cell, max(least, end_cell - first_cell)};
  map.expect = max(least, end_task - first_task) * others;
  return map;
}

}  // namespace mkc
