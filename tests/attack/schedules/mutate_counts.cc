// These edits change the counts that events expect, and their cells.
#include <algorithm>

#include "ir/values.h"
#include "tests/attack/schedules/mutate.h"

namespace mkc::attack {
namespace {

Event* any_event(Edit& e) {
  return e.s.program.events.size() == 0 ? nullptr : &e.rng.pick(e.s.program.events.items);
}

bool expect_more(Edit& e) {
  Event* event = any_event(e);
  if (!event) return false;
  event->expect = event->expect + e.rng.between(1, 3);
  return true;
}

bool expect_less(Edit& e) {
  Event* event = any_event(e);
  if (!event) return false;
  event->expect = max(0, event->expect - e.rng.between(1, 3));
  return true;
}

bool expect_multiple(Edit& e) {
  Event* event = any_event(e);
  if (!event) return false;
  event->expect = e.rng.one_in(2) ? event->expect * 2 : ceil_div(event->expect, 2);
  return true;
}

bool expect_more_at_one_value(Edit& e) {
  Event* event = any_event(e);
  if (!event) return false;
  event->expect = event->expect + Edit::only_at(e.point());
  return true;
}

bool expect_less_at_one_value(Edit& e) {
  Event* event = any_event(e);
  if (!event) return false;
  event->expect = max(0, event->expect - Edit::only_at(e.point()));
  return true;
}

// The count stays right at both ends of the bounds alone.
bool expect_more_between(Edit& e) {
  Event* event = any_event(e);
  if (!event) return false;
  const Edit::Point p = e.point();
  event->expect = event->expect + min(p.symbol - p.lo, Expr(p.hi) - p.symbol);
  return true;
}

bool expect_floor_between(Edit& e) {
  const SymbolId t = find_symbol(e.s.program.symbols, "T");
  std::vector<Event*> counted;
  for (Event& event : e.s.program.events)
    if (t.valid() && event.expect == symbol(t)) counted.push_back(&event);
  if (counted.empty()) return false;
  const int64_t max = e.s.program.symbols[t].bounds.hi;
  e.hints.push_back({"T", std::max<int64_t>(1, max / 2)});
  e.rng.pick(counted)->expect = 1 + floor_div(symbol(t), max) * (max - 1);
  return true;
}

bool expect_more_above(Edit& e) {
  Event* event = any_event(e);
  if (!event) return false;
  const Edit::Point p = e.point();
  event->expect = event->expect + max(0, p.symbol - p.value + 1);
  return true;
}

bool expect_less_below(Edit& e) {
  Event* event = any_event(e);
  if (!event) return false;
  const Edit::Point p = e.point();
  event->expect = max(0, event->expect - max(0, Expr(p.value + 1) - p.symbol));
  return true;
}

bool expect_other_symbol(Edit& e) {
  std::vector<ExprNode*> symbols;
  for (Event& event : e.s.program.events)
    for (ExprNode& node : event.expect.nodes)
      if (node.kind == ExprKind::kSymbol) symbols.push_back(&node);
  std::vector<int64_t> plain;
  for (SymbolId id : e.s.program.symbols.ids())
    if (!e.s.program.symbols[id].is_list()) plain.push_back(id.index);
  if (symbols.empty() || plain.size() < 2) return false;
  ExprNode* node = e.rng.pick(symbols);
  node->value = e.rng.pick(plain);
  return true;
}

bool expect_more_in_one_cell(Edit& e) {
  std::vector<Event*> cells;
  for (Event& event : e.s.program.events)
    if (!event.dims.empty()) cells.push_back(&event);
  if (cells.empty()) return false;
  Event* event = e.rng.pick(cells);
  const auto d = static_cast<uint32_t>(e.rng.below(static_cast<int64_t>(event->dims.size())));
  const int64_t cell = e.rng.below(3);
  event->expect = event->expect + max(0, Expr(1) - max(coord(d) - cell, Expr(cell) - coord(d)));
  return true;
}

bool expect_other_constant(Edit& e) {
  std::vector<ExprNode*> constants;
  for (Event& event : e.s.program.events)
    for (ExprNode& node : event.expect.nodes)
      if (node.kind == ExprKind::kConst) constants.push_back(&node);
  if (constants.empty()) return false;
  e.rng.pick(constants)->value += e.rng.one_in(2) ? 1 : -1;
  return true;
}

bool expect_other_event(Edit& e) {
  Event *to = any_event(e), *from = any_event(e);
  if (!to || to->dims.size() < from->dims.size()) return false;
  to->expect = from->expect;
  return true;
}

bool expect_more_at_one_element(Edit& e) {  // the element is one of q_len or kv_len
  Event* event = any_event(e);
  const bool rows = e.rng.one_in(2);
  const SymbolId list = find_symbol(e.s.program.symbols, rows ? "q_len" : "kv_len");
  if (!event || !list.valid()) return false;
  const Bounds& bounds = e.s.program.symbols[list].bounds;
  const int64_t value = e.rng.between(bounds.lo, std::min<int64_t>(bounds.hi, 4096));
  e.hints.push_back({rows ? "q_len" : "kv_len", value});
  const Expr first = element(list, 0);
  event->expect = event->expect + max(0, Expr(1) - max(first - value, Expr(value) - first));
  return true;
}

bool change_event_dims(Edit& e) {
  std::vector<Event*> cells;
  for (Event& event : e.s.program.events)
    if (!event.dims.empty()) cells.push_back(&event);
  if (cells.empty()) return false;
  Expr& dim = e.rng.pick(e.rng.pick(cells)->dims);
  dim = e.rng.one_in(2) ? dim + 1 : dim - 1;
  return true;
}

constexpr MutantClass kCountClasses[] = {
    {"expect_more", expect_more},
    {"expect_less", expect_less},
    {"expect_multiple", expect_multiple},
    {"expect_more_at_one_value", expect_more_at_one_value},
    {"expect_less_at_one_value", expect_less_at_one_value},
    {"expect_more_between", expect_more_between},
    {"expect_floor_between", expect_floor_between},
    {"expect_more_above", expect_more_above},
    {"expect_less_below", expect_less_below},
    {"expect_other_symbol", expect_other_symbol},
    {"expect_more_in_one_cell", expect_more_in_one_cell},
    {"expect_other_constant", expect_other_constant},
    {"expect_other_event", expect_other_event},
    {"expect_more_at_one_element", expect_more_at_one_element},
    {"event_dims", change_event_dims},
};

}  // namespace

std::span<const MutantClass> count_classes() {
  return kCountClasses;
}

}  // namespace mkc::attack
