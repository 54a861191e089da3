// Waits, notifications and the counts that events expect.
#include <algorithm>

#include "ir/values.h"
#include "tests/attack/schedules/mutate.h"

namespace mkc::attack {
namespace {

Wait* any_wait(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) { return !grid.waits.empty(); });
  return g.valid() ? &e.rng.pick(e.grid(g).waits) : nullptr;
}

Notify* any_notify(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) { return !grid.notifies.empty(); });
  return g.valid() ? &e.rng.pick(e.grid(g).notifies) : nullptr;
}

Event* any_event(Edit& e) {
  return e.s.program.events.size() == 0 ? nullptr : &e.rng.pick(e.s.program.events.items);
}

// Another event; of as many dims if `alike`.
EventId other_event(Edit& e, EventId event, bool alike) {
  std::vector<EventId> found;
  for (EventId id : e.s.program.events.ids())
    if (id != event &&
        (!alike || e.s.program.events[id].dims.size() == e.s.program.events[event].dims.size()))
      found.push_back(id);
  return found.empty() ? EventId{} : e.rng.pick(found);
}

bool drop_wait(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) { return !grid.waits.empty(); });
  if (!g.valid()) return false;
  auto& waits = e.grid(g).waits;
  waits.erase(waits.begin() + e.rng.below(static_cast<int64_t>(waits.size())));
  return true;
}

bool double_wait(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) { return !grid.waits.empty(); });
  if (!g.valid()) return false;
  const Wait wait = e.rng.pick(e.grid(g).waits);
  e.grid(g).waits.push_back(wait);
  return true;
}

bool redirect_wait(Edit& e) {
  Wait* wait = any_wait(e);
  const EventId to = wait ? other_event(e, wait->event, true) : EventId{};
  if (!to.valid()) return false;
  wait->event = to;
  return true;
}

// To an event of whatever dims, whose first cell is awaited.
bool redirect_wait_anywhere(Edit& e) {
  Wait* wait = any_wait(e);
  const EventId to = wait ? other_event(e, wait->event, false) : EventId{};
  if (!to.valid()) return false;
  wait->event = to;
  wait->cell.assign(e.s.program.events[to].dims.size(), Expr(0));
  return true;
}

// A cell that some wait names; null where all events have one.
Expr* any_cell(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) {
    return std::any_of(grid.waits.begin(), grid.waits.end(), [](const Wait& w) { return !w.cell.empty(); });
  });
  if (!g.valid()) return nullptr;
  for (Wait& wait : e.grid(g).waits)
    if (!wait.cell.empty()) return &e.rng.pick(wait.cell);
  return nullptr;
}

bool shift_wait_cell(Edit& e) {
  Expr* cell = any_cell(e);
  if (!cell) return false;
  *cell = e.rng.one_in(2) ? *cell + 1 : *cell - 1;
  return true;
}

bool clamp_wait_cell(Edit& e) {
  Expr* cell = any_cell(e);
  if (!cell) return false;
  *cell = e.rng.one_in(2) ? max(0, *cell - 1) : min(*cell, e.rng.below(3));
  return true;
}

bool fix_wait_cell(Edit& e) {
  Expr* cell = any_cell(e);
  if (!cell) return false;
  *cell = e.rng.below(2);
  return true;
}

bool shift_wait_cell_at_one_value(Edit& e) {
  Expr* cell = any_cell(e);
  if (!cell) return false;
  *cell = max(0, *cell - Edit::only_at(e.point()));
  return true;
}

bool swap_wait_coords(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) {
    return grid.coords.size() >= 2 &&
           std::any_of(grid.waits.begin(), grid.waits.end(), [](const Wait& w) { return !w.cell.empty(); });
  });
  if (!g.valid()) return false;
  for (Wait& wait : e.grid(g).waits)
    for (Expr& cell : wait.cell)
      for (ExprNode& node : cell.nodes)
        if (node.kind == ExprKind::kCoord) node.value = node.value == 0 ? 1 : 0;
  return true;
}

bool flip_lookup(Edit& e) {
  Wait* wait = any_wait(e);
  if (!wait) return false;
  wait->lookup = !wait->lookup;
  return true;
}

bool drop_lookup(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) {
    return std::any_of(grid.waits.begin(), grid.waits.end(), [](const Wait& w) { return w.lookup; });
  });
  if (!g.valid()) return false;
  std::erase_if(e.grid(g).waits, [](const Wait& w) { return w.lookup; });
  return true;
}

bool drop_notify(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) { return !grid.notifies.empty(); });
  if (!g.valid()) return false;
  auto& notifies = e.grid(g).notifies;
  notifies.erase(notifies.begin() + e.rng.below(static_cast<int64_t>(notifies.size())));
  return true;
}

bool double_notify(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) { return !grid.notifies.empty(); });
  if (!g.valid()) return false;
  const Notify notify = e.rng.pick(e.grid(g).notifies);
  e.grid(g).notifies.push_back(notify);
  return true;
}

bool redirect_notify(Edit& e) {
  Notify* notify = any_notify(e);
  const EventId to = notify ? other_event(e, notify->event, true) : EventId{};
  if (!to.valid()) return false;
  notify->event = to;
  return true;
}

bool move_notify(Edit& e) {  // to another grid, as it is
  const GridId from = e.grid_where([](const TaskGrid& grid) { return !grid.notifies.empty(); });
  if (!from.valid()) return false;
  const GridId to = e.any_grid();
  const Notify notify = e.grid(from).notifies.back();
  if (to == from) return false;
  e.grid(from).notifies.pop_back();
  e.grid(to).notifies.push_back(notify);
  return true;
}

// A range of cells that some grid notifies.
Range* any_box(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) {
    return std::any_of(grid.notifies.begin(), grid.notifies.end(),
                       [](const Notify& n) { return !n.cells.empty(); });
  });
  if (!g.valid()) return nullptr;
  for (Notify& n : e.grid(g).notifies)
    if (!n.cells.empty()) return &e.rng.pick(n.cells);
  return nullptr;
}

bool shift_notify(Edit& e) {
  Range* box = any_box(e);
  if (!box) return false;
  box->offset = e.rng.one_in(2) ? box->offset + 1 : box->offset - 1;
  return true;
}

bool clamp_notify(Edit& e) {
  Range* box = any_box(e);
  if (!box) return false;
  box->offset = e.rng.one_in(2) ? max(0, box->offset - 1) : min(box->offset, e.rng.below(3));
  return true;
}

bool shrink_notify(Edit& e) {
  Range* box = any_box(e);
  if (!box) return false;
  box->size = e.rng.one_in(2) ? box->size - 1 : Expr(0);
  return true;
}

bool grow_notify(Edit& e) {
  Range* box = any_box(e);
  if (!box) return false;
  box->size = box->size + 1;
  return true;
}

bool notify_all_cells(Edit& e) {
  Notify* notify = any_notify(e);
  if (!notify || notify->cells.empty()) return false;
  for (size_t d = 0; d < notify->cells.size(); ++d)
    notify->cells[d] = {0, e.s.program.events[notify->event].dims[d]};
  return true;
}

bool shift_notify_at_one_value(Edit& e) {
  Range* box = any_box(e);
  if (!box) return false;
  box->offset = max(0, box->offset - Edit::only_at(e.point()));
  return true;
}

bool drop_notify_at_one_value(Edit& e) {
  Range* box = any_box(e);
  if (!box) return false;
  box->size = box->size - Edit::only_at(e.point());
  return true;
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

// Right at both ends of the bounds alone.
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
  const int64_t most = e.s.program.symbols[t].bounds.hi;
  e.hints.push_back({"T", std::max<int64_t>(1, most / 2)});
  e.rng.pick(counted)->expect = 1 + floor_div(symbol(t), most) * (most - 1);
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

bool expect_more_at_one_element(Edit& e) {  // of q_len or kv_len
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

bool merge_events(Edit& e) {  // all that notify or await one take another
  const EventId from{static_cast<uint32_t>(e.rng.below(e.s.program.events.size()))};
  const EventId to = other_event(e, from, true);
  if (!to.valid()) return false;
  for (TaskGrid& grid : e.s.program.grids) {
    for (Wait& wait : grid.waits)
      if (wait.event == from) wait.event = to;
    for (Notify& notify : grid.notifies)
      if (notify.event == from) notify.event = to;
  }
  e.s.program.events[to].expect = e.s.program.events[to].expect + e.s.program.events[from].expect;
  return true;
}

// A dependence goes, and the counts stay right: nobody tells of it but what is read.
bool drop_dependence(Edit& e) {
  const GridId g = e.grid_where([](const TaskGrid& grid) { return !grid.notifies.empty(); });
  if (!g.valid()) return false;
  const Notify notify = e.rng.pick(e.grid(g).notifies);
  if (!notify.cells.empty()) return false;
  Expr tasks = 1;
  for (const Coord& c : e.grid(g).coords) {
    if (uses_coord(c.extent)) return false;
    tasks = tasks * c.extent;
  }
  std::erase(e.grid(g).notifies, notify);
  Event& event = e.s.program.events[notify.event];
  event.expect = event.expect - tasks;
  return true;
}

constexpr MutantClass kClasses[] = {
    {"wait_drop", drop_wait},
    {"wait_double", double_wait},
    {"wait_redirect", redirect_wait},
    {"wait_redirect_anywhere", redirect_wait_anywhere},
    {"wait_cell_shift", shift_wait_cell},
    {"wait_cell_clamp", clamp_wait_cell},
    {"wait_cell_fix", fix_wait_cell},
    {"wait_cell_at_one_value", shift_wait_cell_at_one_value},
    {"wait_coords_swap", swap_wait_coords},
    {"lookup_flip", flip_lookup},
    {"lookup_drop", drop_lookup},
    {"notify_drop", drop_notify},
    {"notify_double", double_notify},
    {"notify_redirect", redirect_notify},
    {"notify_move", move_notify},
    {"notify_shift", shift_notify},
    {"notify_clamp", clamp_notify},
    {"notify_shrink", shrink_notify},
    {"notify_grow", grow_notify},
    {"notify_all_cells", notify_all_cells},
    {"notify_shift_at_one_value", shift_notify_at_one_value},
    {"notify_drop_at_one_value", drop_notify_at_one_value},
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
    {"event_merge", merge_events},
    {"dependence_drop", drop_dependence},
};

}  // namespace

std::span<const MutantClass> event_classes() {
  return kClasses;
}

}  // namespace mkc::attack
