// These edits change waits and notifications.
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

// Returns another event. `alike` asks for one of as many dims.
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

// Redirects a wait to the first cell of an event of any dims.
bool redirect_wait_anywhere(Edit& e) {
  Wait* wait = any_wait(e);
  const EventId to = wait ? other_event(e, wait->event, false) : EventId{};
  if (!to.valid()) return false;
  wait->event = to;
  wait->cell.assign(e.s.program.events[to].dims.size(), Expr(0));
  return true;
}

// Returns a cell's coordinate that some wait names; null where there is none.
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

bool move_notify(Edit& e) {  // moves a notification as it is to another grid
  const GridId from = e.grid_where([](const TaskGrid& grid) { return !grid.notifies.empty(); });
  if (!from.valid()) return false;
  const GridId to = e.any_grid();
  const Notify notify = e.grid(from).notifies.back();
  if (to == from) return false;
  e.grid(from).notifies.pop_back();
  e.grid(to).notifies.push_back(notify);
  return true;
}

// Returns a range of cells that some grid notifies; null where there is none.
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

bool merge_events(Edit& e) {  // lets all that notify or await one event take another
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

// Drops a dependence and keeps the counts right, so that only what is read shows the loss.
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

constexpr MutantClass kWaitClasses[] = {
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
    {"dependence_drop", drop_dependence},
    {"event_merge", merge_events},
};

}  // namespace

std::span<const MutantClass> wait_classes() {
  return kWaitClasses;
}

}  // namespace mkc::attack
