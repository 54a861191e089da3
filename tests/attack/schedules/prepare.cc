#include "tests/attack/schedules/run.h"

namespace mkc::attack {
namespace {

// Returns the inline grid that runs where a task of this grid completes a cell. The first notified event that
// an inline grid awaits decides.
GridId inlined_behind(const Schedule& s, const TaskGrid& grid) {
  for (const Notify& notify : grid.notifies)
    for (GridId other : s.program.grids.ids()) {
      if (s.placements[other.index].kind != PlacementKind::kInline) continue;
      for (const Wait& wait : s.program.grids[other].waits)
        if (wait.event == notify.event) return other;
    }
  return {};
}

}  // namespace

Prepared::Prepared(const Schedule& schedule, const Step& at)
    : s(schedule), step(at), tasks(tasks_of(schedule.program, at)), memory(schedule, at) {
  prepare_events();
  prepare_uses();
}

void Prepared::prepare_events() {
  for (EventId e : s.program.events.ids()) {
    dims.emplace_back();
    for (const Expr& dim : s.program.events[e].dims) dims.back().push_back(step.at(dim));
    log.push_back(keeps_log(s, e) ? s.event_base[e.index] + max_cells(s.program, e) : kNone);
  }
  for (const TaskGrid& grid : s.program.grids) inlined.push_back(inlined_behind(s, grid));
}

void Prepared::prepare_uses() {
  std::vector<Touch> touches;
  std::vector<int64_t> coords;
  for (GridId g : s.program.grids.ids()) {
    DeclaredRegions declared(s, step, g);
    for (int64_t task = 0; task < tasks[g.index].count; ++task) {
      tasks[g.index].coords_of(task, coords);
      touches.clear();
      touches_of_task(s, step, g, coords, touches);
      declared.check(coords, touches);
      use_begin.push_back(static_cast<uint32_t>(uses.size()));
      for (const Use& use : memory.uses_of(touches, g.index)) uses.push_back(use);
    }
  }
  use_begin.push_back(static_cast<uint32_t>(uses.size()));
  for (GridId g : s.program.grids.ids()) {
    touches.clear();
    touches_of_lookup(s, step, g, touches);
    looked_up.push_back(memory.uses_of(touches, g.index));
  }
  memory.cut();
}

}  // namespace mkc::attack
