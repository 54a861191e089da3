// These edits change symbols, coordinates, attributes, shapes and the order of grids.
#include <algorithm>

#include "ir/values.h"
#include "tests/attack/schedules/mutate.h"

namespace mkc::attack {
namespace {

Symbol& any_symbol(Edit& e) {
  return e.rng.pick(e.s.program.symbols.items);
}

// Bounds of T, B, q_len and kv_len are the host's limits: a step may then be as large.
bool raise_upper_bound(Edit& e) {
  Symbol& symbol = any_symbol(e);
  symbol.bounds.hi += e.rng.between(1, std::max<int64_t>(1, symbol.bounds.hi));
  return true;
}

bool lower_upper_bound(Edit& e) {
  Symbol& symbol = any_symbol(e);
  symbol.bounds.hi -= e.rng.one_in(2) ? 1 : e.rng.between(1, std::max<int64_t>(1, symbol.bounds.hi));
  return symbol.bounds.hi >= symbol.bounds.lo;
}

bool raise_lower_bound(Edit& e) {
  Symbol& symbol = any_symbol(e);
  symbol.bounds.lo += 1;
  return symbol.bounds.hi >= symbol.bounds.lo;
}

bool lower_lower_bound(Edit& e) {
  Symbol& symbol = any_symbol(e);
  if (symbol.bounds.lo == 0) return false;
  symbol.bounds.lo -= 1;
  return true;
}

bool flip_cut(Edit& e) {
  Symbol& symbol = any_symbol(e);
  symbol.cut = !symbol.cut;
  return true;
}

bool flip_routed(Edit& e) {
  Symbol& symbol = any_symbol(e);
  symbol.routed = !symbol.routed;
  return true;
}

bool cut_bounds(Edit& e) {
  std::vector<Symbol*> cut;
  for (Symbol& symbol : e.s.program.symbols)
    if (symbol.cut) cut.push_back(&symbol);
  if (cut.empty()) return false;
  Bounds& bounds = e.rng.pick(cut)->bounds;
  bounds.hi += e.rng.one_in(2) ? 1 : -1;
  return bounds.hi >= bounds.lo;
}

bool routed_bounds(Edit& e) {
  std::vector<Symbol*> routed;
  for (Symbol& symbol : e.s.program.symbols)
    if (symbol.routed) routed.push_back(&symbol);
  if (routed.empty()) return false;
  Bounds& bounds = e.rng.pick(routed)->bounds;
  int64_t& bound = e.rng.one_in(2) ? bounds.hi : bounds.lo;
  bound += e.rng.one_in(2) ? 1 : -1;
  return bounds.hi >= bounds.lo && bounds.lo >= 0;
}

bool sum_another_list(Edit& e) {
  std::vector<SymbolId> sums, lists;
  for (SymbolId id : e.s.program.symbols.ids()) {
    if (e.s.program.symbols[id].is_list()) lists.push_back(id);
    if (e.s.program.symbols[id].sums.valid()) sums.push_back(id);
  }
  if (sums.empty()) return false;
  const SymbolId id = e.rng.pick(sums), to = e.rng.pick(lists);
  if (to == id || e.s.program.symbols[id].length != e.s.program.symbols[to].length) return false;
  const bool changed = e.s.program.symbols[id].sums != to;
  e.s.program.symbols[id].sums = to;
  return changed;
}

bool change_extent(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) { return !grid.coords.empty(); });
  if (!g.valid()) return false;
  Expr& extent = e.rng.pick(e.grid(g).coords).extent;
  extent = e.rng.one_in(2) ? extent + 1 : max(1, extent - 1);
  return true;
}

bool change_extent_at_one_value(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) { return !grid.coords.empty(); });
  if (!g.valid()) return false;
  Expr& extent = e.rng.pick(e.grid(g).coords).extent;
  extent = max(1, extent - Edit::only_at(e.point()));
  return true;
}

bool extent_of_other_symbol(Edit& e) {
  std::vector<ExprNode*> symbols;
  for (TaskGrid& grid : e.s.program.grids)
    for (Coord& c : grid.coords)
      for (ExprNode& node : c.extent.nodes)
        if (node.kind == ExprKind::kSymbol || node.kind == ExprKind::kElement) symbols.push_back(&node);
  if (symbols.empty()) return false;
  ExprNode* node = e.rng.pick(symbols);
  std::vector<int64_t> alike;
  for (SymbolId id : e.s.program.symbols.ids())
    if (e.s.program.symbols[id].is_list() == (node->kind == ExprKind::kElement) && id.index != node->value)
      alike.push_back(id.index);
  if (alike.empty()) return false;
  node->value = e.rng.pick(alike);
  return true;
}

bool swap_coords(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) { return grid.coords.size() >= 2; });
  if (!g.valid()) return false;
  std::swap(e.grid(g).coords[0], e.grid(g).coords[1]);
  return true;
}

bool change_attr(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) {
    return std::any_of(grid.attrs.begin(), grid.attrs.end(), [](const Attr& a) { return !a.is_float; });
  });
  if (!g.valid()) return false;
  for (Attr& attr : e.grid(g).attrs) {
    if (attr.is_float || (e.grid(g).attrs.size() > 1 && e.rng.one_in(2))) continue;
    attr.i = e.rng.one_in(3) ? attr.i * 2 : std::max<int64_t>(0, attr.i + (e.rng.one_in(2) ? 1 : -1));
    return true;
  }
  return false;
}

bool drop_attr(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) { return !grid.attrs.empty(); });
  if (!g.valid()) return false;
  auto& attrs = e.grid(g).attrs;
  attrs.erase(attrs.begin() + e.rng.below(static_cast<int64_t>(attrs.size())));
  return true;
}

bool add_attr(Edit& e) {
  static const std::vector<std::string> names = {"window", "gate", "gather_rows", "strips", "wgmma_from"};
  Attrs& attrs = e.grid(e.any_grid()).attrs;
  const std::string& name = e.rng.pick(names);
  if (find_attr(attrs, name)) return false;
  set_attr(attrs, name,
           name == "window"       ? e.rng.between(1, 600)
           : name == "wgmma_from" ? 33
                                  : e.rng.between(1, 2));
  return true;
}

bool change_shape(Edit& e) {
  std::vector<Tensor*> found;
  for (Tensor& t : e.s.program.tensors)
    if (t.kind == TensorKind::kActivation || t.kind == TensorKind::kOutput || t.kind == TensorKind::kCache)
      found.push_back(&t);
  Expr& dim = e.rng.pick(e.rng.pick(found)->shape);
  dim = e.rng.one_in(2) ? dim + 1 : max(1, dim - 1);
  return true;
}

bool shape_of_other_symbol(Edit& e) {
  std::vector<ExprNode*> symbols;
  for (Tensor& t : e.s.program.tensors)
    for (Expr& dim : t.shape)
      for (ExprNode& node : dim.nodes)
        if (node.kind == ExprKind::kSymbol) symbols.push_back(&node);
  std::vector<int64_t> plain;
  for (SymbolId id : e.s.program.symbols.ids())
    if (const Symbol& s = e.s.program.symbols[id]; !s.is_list() && !s.routed && !s.cut)
      plain.push_back(id.index);
  if (symbols.empty() || plain.size() < 2) return false;
  e.rng.pick(symbols)->value = e.rng.pick(plain);
  return true;
}

// Placements and segments name grids by their number, and follow.
bool swap_grids(Edit& e) {
  const uint32_t n = e.s.program.grids.size();
  if (n < 2) return false;
  const auto a = static_cast<uint32_t>(e.rng.below(n)),
             b = e.rng.one_in(2) ? (a + 1) % n : static_cast<uint32_t>(e.rng.below(n));
  std::swap(e.s.program.grids.items[a], e.s.program.grids.items[b]);
  std::swap(e.s.placements[a], e.s.placements[b]);
  for (auto& stream : e.s.streams)
    for (Segment& segment : stream)
      if (segment.grid.index == a || segment.grid.index == b)
        segment.grid.index = segment.grid.index == a ? b : a;
  return a != b;
}

constexpr MutantClass kProgramClasses[] = {
    {"bound_upper_raise", raise_upper_bound},
    {"bound_upper_lower", lower_upper_bound},
    {"bound_lower_raise", raise_lower_bound},
    {"bound_lower_lower", lower_lower_bound},
    {"cut_flip", flip_cut},
    {"cut_bounds", cut_bounds},
    {"routed_flip", flip_routed},
    {"routed_bounds", routed_bounds},
    {"sums_of_another_list", sum_another_list},
    {"extent", change_extent},
    {"extent_at_one_value", change_extent_at_one_value},
    {"extent_of_other_symbol", extent_of_other_symbol},
    {"coords_swap", swap_coords},
    {"attr_change", change_attr},
    {"attr_drop", drop_attr},
    {"attr_add", add_attr},
    {"shape", change_shape},
    {"shape_of_other_symbol", shape_of_other_symbol},
    {"grids_swap", swap_grids},
};

}  // namespace

std::span<const MutantClass> program_classes() {
  return kProgramClasses;
}

}  // namespace mkc::attack
