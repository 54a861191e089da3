#include "scheduler/events/events_map.h"

#include <algorithm>

namespace mkc {
namespace {

// Returns the factor of an expression `factor * c`, `c * factor` or `c`.
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

// Tells whether the strips cover the dim from end to end without gaps, and each strip contains a part of it.
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
  // The offset is factor * c, or factor * c + constant.
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
    s.size = range.size.nodes[0].value;  // the strip is cut off at the end of the dim
  else
    return std::nullopt;
  return s.size >= 1 ? std::optional(s) : std::nullopt;
}

CellMap notify_all(const Expr& cells) {
  CellMap map;
  map.cells = {0, cells};
  map.cells_per_task = cells.is_const() ? static_cast<double>(cells.constant()) : 1;
  return map;
}

CellMap notify_meeting(const Strips& from, const Strips& to) {
  CellMap map;
  map.by = from.coord;
  map.complete = cover(from) && cover(to);
  const Expr j = coord(from.coord), cell = coord(0);
  const bool aligned = from.start == 0 && to.start == 0 && from.size == from.step && to.size == to.step;
  if (aligned && from.step == to.step && from.extent == to.extent) {
    map.cells = {j, 1};
    return map;
  }
  const int64_t ratio = to.step / from.step;
  if (aligned && map.complete && to.step % from.step == 0 && from.extent == to.extent * ratio) {
    map.cells = {floor_div(j, ratio), 1};
    map.values = ratio;
    return map;
  }
  // Strips [a, a + m) and [b, b + n) overlap where a < b + n and b < a + m. Where both sets of strips cover
  // the dim, each strip overlaps at least one other. Interval arithmetic alone would not show that.
  const int64_t min_met = map.complete ? 1 : 0;
  const Expr at = from.step * j + from.start, wanted = to.step * cell + to.start;
  const Expr first_cell = max(0, floor_div(at - to.start - to.size, to.step) + 1);
  const Expr end_cell = min(to.extent, ceil_div(at + from.size - to.start, to.step));
  const Expr first_task = max(0, floor_div(wanted - from.start - from.size, from.step) + 1);
  const Expr end_task = min(from.extent, ceil_div(wanted + to.size - from.start, from.step));
  map.cells = {first_cell, max(min_met, end_cell - first_cell)};
  map.values = max(min_met, end_task - first_task);
  map.cells_per_task = std::max(1.0, static_cast<double>(from.size + to.size) / static_cast<double>(to.step));
  return map;
}

std::optional<CellMap> notify_same(const Symbols& symbols, const Range& from, const TaskGrid& from_grid,
                                   const Range& to, const TaskGrid& to_grid, uint32_t to_coord) {
  // The offset is starts[c], where `starts` sums `lengths`. The size is lengths[c], or the minimum of
  // lengths[c] and another value.
  const auto& offset = from.offset.nodes;
  if (offset.size() != 2 || offset[0].kind != ExprKind::kCoord || offset[1].kind != ExprKind::kElement)
    return std::nullopt;
  const auto by = static_cast<uint32_t>(offset[0].value);
  const Symbol& starts = symbols[SymbolId{static_cast<uint32_t>(offset[1].value)}];
  if (!starts.sums.valid()) return std::nullopt;
  const Expr length = element(starts.sums, coord(by));
  const bool spans =
      from.size == length || (from.size.nodes.size() > 2 &&
                              std::equal(length.nodes.begin(), length.nodes.end(), from.size.nodes.begin()) &&
                              from.size.nodes.back().kind == ExprKind::kMin);
  std::vector<Expr> renamed;
  for (uint32_t c = 0; c < to_grid.coords.size(); ++c)
    renamed.push_back(coord(c == to_coord ? by : UINT32_MAX));
  const bool same =
      substitute(to.offset, renamed) == from.offset && substitute(to.size, renamed) == from.size;
  if (!spans || !same || from_grid.coords[by].extent != to_grid.coords[to_coord].extent) return std::nullopt;
  CellMap map;
  map.by = by;
  map.cells = {coord(by), 1};
  return map;
}

std::optional<NotifyMap> join_maps(const TaskProgram& program, GridId grid, std::span<const CellMap> dims) {
  const std::vector<Coord>& coords = program.grids[grid].coords;
  NotifyMap map;
  map.grid = grid;
  map.expect = 1;
  std::vector<std::optional<uint32_t>> decides(coords.size());  // by coordinate: the dim that it decides
  for (uint32_t d = 0; d < dims.size(); ++d) {
    const CellMap& dim = dims[d];
    map.cells.push_back(dim.cells);
    map.complete = map.complete && dim.complete;
    map.cells_per_task *= dim.cells_per_task;
    map.partial = map.partial || dim.by.has_value();
    if (!dim.by) continue;
    if (decides[*dim.by]) return std::nullopt;
    decides[*dim.by] = d;
    map.expect = map.expect * substitute(dim.values, std::vector{coord(d)});
  }
  for (uint32_t c = 0; c < coords.size(); ++c) {
    if (decides[c]) continue;
    Expr extent = coords[c].extent;
    if (uses_coord(extent)) {  // the extent uses the coordinate before it, which the cell must determine
      const std::optional<uint32_t> d = c == 0 ? std::nullopt : decides[c - 1];
      if (!d || dims[*d].cells != Range{coord(c - 1), 1}) return std::nullopt;
      std::vector<Expr> cell(coords.size());
      cell[c - 1] = coord(*d);
      extent = substitute(extent, cell);
    }
    map.expect = map.expect * extent;
  }
  return map;
}

}  // namespace mkc
