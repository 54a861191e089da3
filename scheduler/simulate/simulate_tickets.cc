// Workers of the simulation claim tasks. The order of the requests determines which worker gets which task.
#include <algorithm>
#include <utility>

#include "scheduler/simulate/simulate_engine.h"

namespace mkc {

bool Simulator::is_ready(GridId grid) const {
  return step_.schedule->placements[grid.index].kind == PlacementKind::kReady;
}

// The loader claims the tasks of grids that stream something and hands them to its consumers. The loader
// learns the tasks of ready grids from its consumers.
bool Simulator::loader_claims(GridId grid) const {
  return streams(step_.schedule->program.grids[grid]) && !is_ready(grid);
}

void Simulator::claim_for_loader(uint32_t w) {
  Loader& l = loaders_[w];
  const GridId grid = l.walk.at(step_).grid;
  if (!streams(step_.schedule->program.grids[grid])) return l.walk.leave_run();
  l.for_told = is_ready(grid);
  if (l.for_told) return;
  l.ticket = tickets_[grid.index]++;
  l.for_ticket = true;
  set_timer(now_ns_ + m_.ticket_ns, Timer::kLoader, w);
}

void Simulator::hand_over(uint32_t w) {
  Loader& l = loaders_[w];
  const Run& run = l.walk.at(step_);
  l.for_ticket = false;
  if (l.ticket < run.count) {
    l.begin(step_.task_base[run.grid.index] + l.ticket, works_);
    l.for_event = begin_lookup(w);
    l.handed.push_back(l.task);
  } else {
    l.walk.leave_run();
    l.handed.push_back(kNone);
  }
  if (consumers_[w].for_task) resume(w);
}

void Simulator::hand_back(uint32_t w, uint32_t task) {
  Loader& l = loaders_[w];
  l.for_told = false;
  if (task == kNone)
    l.walk.leave_run();
  else
    l.begin(task, works_);
  issue_tiles(w);
}

// The consumer claims a task itself, or the loader tells it the task that it has claimed.
bool Simulator::claim_for_consumer(uint32_t w) {
  Consumer& c = consumers_[w];
  const GridId grid = c.walk.at(step_).grid;
  c.phase = Consumer::kClaim;
  c.claiming_since_ns = now_ns_;
  c.completed_by = kNone;
  const double dispatch_ns = c.walk.next == 0 ? works_.dispatch_ns() : 0;
  if (loader_claims(grid)) return !takes(w, dispatch_ns + m_.barrier_ns);
  c.ticket = tickets_[grid.index]++;
  return !takes(w, dispatch_ns + m_.ticket_ns + m_.barrier_ns);
}

// Returns false where the claimed task is not known yet.
bool Simulator::take_claimed(uint32_t w) {
  Consumer& c = consumers_[w];
  Loader& l = loaders_[w];
  const Run& run = c.walk.at(step_);
  const bool ready = is_ready(run.grid);
  uint32_t task = kNone;
  if (loader_claims(run.grid)) {
    c.for_task = l.handed.empty();
    if (c.for_task) return false;
    task = l.handed.front();
    l.handed.pop_front();
  } else if (c.ticket < run.count) {
    task = step_.task_base[run.grid.index] + c.ticket;
    if (ready && !look_in_log(w, task)) return false;
  }
  if (ready && streams(step_.schedule->program.grids[run.grid])) hand_back(w, task);
  if (task == kNone) {
    c.walk.leave_run();
    c.phase = Consumer::kNext;
    return true;
  }
  c.first_of_run = c.walk.next++ == 0;
  begin_task(w, task);
  result_.tasks[task].reached_ns = c.claiming_since_ns;
  if (ready) result_.tasks[task].awaited = c.completed_by;
  c.phase = ready ? Consumer::kStart : Consumer::kWait;
  return true;
}

// Finds the task of the worker's ticket in the log of the event that it waits for. Returns false where its
// cell is not complete, or where the completion is not in the log yet. The worker that completes a cell
// learns of it first and then enters it.
bool Simulator::look_in_log(uint32_t w, uint32_t& task) {
  Consumer& c = consumers_[w];
  const GridId grid = step_.grid_of[task];
  const uint32_t event = step_.schedule->program.grids[grid].waits[0].event.index;
  const uint32_t first_cell = step_.cell_base[event], cells = step_.cell_base[event + 1] - first_cell;
  const uint32_t per_cell = c.walk.at(step_).count / cells, entry = c.ticket / per_cell;
  if (entry >= logs_[event].size()) {
    claimers_[event].push_back(w);
    c.for_event = true;
    return false;
  }
  const uint32_t cell = logs_[event][entry];
  const double entered_ns = result_.tasks[completed_by_[cell]].end_ns + notified_ns(cell) + m_.notify_ns;
  if (entered_ns > now_ns_) {
    c.completed_by = completed_by_[cell];
    c.for_event = true;
    return !takes(w, entered_ns - now_ns_ + m_.barrier_ns);
  }
  task = step_.task_base[grid.index] + (cell - first_cell) * per_cell + c.ticket % per_cell;
  return true;
}

void Simulator::enter_in_log(uint32_t cell) {
  const auto after = std::upper_bound(step_.cell_base.begin(), step_.cell_base.end(), cell);
  const size_t event = static_cast<size_t>(after - step_.cell_base.begin()) - 1;
  logs_[event].push_back(cell);
  for (uint32_t worker : std::exchange(claimers_[event], {})) set_timer(now_ns_, Timer::kConsumer, worker);
}

}  // namespace mkc
