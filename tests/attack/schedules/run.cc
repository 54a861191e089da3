#include "tests/attack/schedules/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/attack/schedules/finding.h"
#include "tests/attack/schedules/stages.h"

namespace mkc::attack {
namespace {

constexpr uint32_t kChanges = 3;  // changes of priorities in a run (Burckhardt et al. 2010, "PCT")

bool in_blocks(const TaskGrid& grid) {
  return grid.body == BodyKind::kProduct || grid.body == BodyKind::kSplitKPartial;
}

// Returns whether a segment makes the wait once. The wait then names no coordinate, and the grid notifies
// somebody.
bool is_shared(const TaskGrid& grid, const Wait& wait) {
  return !grid.notifies.empty() && std::none_of(wait.cell.begin(), wait.cell.end(), uses_coord);
}

}  // namespace

Run::Run(Prepared& prepared, Rng& rng)
    : p_(prepared), rng_(rng), workers_(prepared.s.workers), changes_left_(kChanges) {
  p_.memory.begin();
  consumers_.resize(workers_);
  loaders_.resize(workers_);
  for (uint32_t w = 0; w < workers_; ++w) {
    consumers_[w].clocks.assign(workers_ + 1, 0);
    consumers_[w].clocks[w] = 1;
  }
  counters_.assign(p_.s.event_cells, 0);
  counter_clocks_.assign(size_t{p_.s.event_cells} * workers_, 0);
  waiting_.resize(p_.s.event_cells);
  ran_.assign(p_.use_begin.size() - 1, 0);
  loads_ = false;
  for (GridId g : p_.s.program.grids.ids()) loads_ = loads_ || draws_by_loader(g);
  for (uint32_t actor = 0; actor < (loads_ ? 2 : 1) * workers_; ++actor) ready_.push_back(actor);
  for (uint32_t actor = 0; actor < 2 * workers_; ++actor)
    priority_.push_back(rng_.one_in(2) ? 0 : rng_.next());
}

void Run::go() {
  while (!ready_.empty()) {
    const uint32_t actor = pick_actor();
    actor < workers_ ? step_consumer(actor) : step_loader(actor - workers_);
  }
  for (uint32_t w = 0; w < workers_; ++w)
    if (consumers_[w].segment < p_.s.streams[w].size()) deadlock();
  check_all_ran();
  check_counts();
  p_.memory.end();
}

// Picks the actor of the highest priority, which now and then changes. Actors of priority 0 come in random
// order.
uint32_t Run::pick_actor() {
  size_t best = static_cast<size_t>(rng_.below(static_cast<int64_t>(ready_.size())));
  for (size_t i = 0; i < ready_.size(); ++i)
    if (priority_[ready_[i]] > priority_[ready_[best]]) best = i;
  const uint32_t actor = ready_[best];
  if (changes_left_ > 0 && rng_.one_in(64))
    --changes_left_, priority_[actor] = static_cast<uint64_t>(rng_.below(2));
  ready_[best] = ready_.back();
  ready_.pop_back();
  return actor;
}

void Run::step_consumer(uint32_t w) {
  Worker& c = consumers_[w];
  const std::vector<Segment>& stream = p_.s.streams[w];
  if (c.segment >= stream.size()) return;
  const GridId id = stream[c.segment].grid;
  if (p_.s.placements[id.index].kind == PlacementKind::kInline) {  // no code serves an inline grid
    ++c.segment;
    return ready_.push_back(w);
  }
  if (!c.begun && !begin_segment(w, id)) return;
  std::vector<int64_t> tasks;
  if (!next_tasks(w, id, tasks)) return;  // the worker is blocked
  if (tasks.empty()) {
    end_segment(w);
    return ready_.push_back(w);
  }
  if (!wait_for(w, id, tasks) || !wait_ring(w, id)) return;
  require_stages(id, tasks);
  c.ticket.reset();
  const bool claimed = claims_by_ticket(p_.s.placements[id.index].kind);
  run_tasks(w, id, tasks, !claimed);
  // Operands of all tasks are read until the last task.
  if (!claimed && !c.first && tasks.back() + 1 == c.end)
    for (const Use& use : c.read_once) p_.memory.read(use, {w, c.clocks[w]}, c.clocks, kNone, id.index);
  free_stages(w, id, tasks);
  c.next = tasks.back() + 1;
  c.first = false;
  notify(w, id, tasks);
  ready_.push_back(w);
}

std::pair<int64_t, int64_t> Run::share(uint32_t w, GridId id, const Segment& segment) const {
  const Placement& placement = p_.s.placements[id.index];
  if (placement.kind == PlacementKind::kTable) return {segment.first, int64_t{segment.first} + segment.count};
  const int64_t n = p_.tasks[id.index].count, part = (w + placement.rotation) % workers_;
  return {n * part / workers_, n * (part + 1) / workers_};
}

// Returns false where the worker is blocked.
bool Run::begin_segment(uint32_t w, GridId id) {
  Worker& c = consumers_[w];
  if (!look_up(c.clocks, c.blocked, id)) {
    block(w, c.blocked.counter);
    return false;
  }
  for (const Use& use : p_.looked_up[id.index]) {
    const Moment now = use.by == Toucher::kTable ? Moment{workers_, 1} : Moment{w, c.clocks[w]};
    if (use.by != Toucher::kTable || multiplies(grid(id)))
      p_.memory.read(use, now, c.clocks, kNone, id.index);
  }
  c.begun = c.first = true;
  c.late = rng_.one_in(2);
  c.read_once.clear();
  std::tie(c.next, c.end) = share(w, id, p_.s.streams[w][c.segment]);
  return true;
}

void Run::end_segment(uint32_t w) {
  Worker& c = consumers_[w];
  for (const Late& late : c.held_back) add(late.counter, late.clocks);
  c.held_back.clear();
  ++c.segment;
  c.begun = false;
  wake_loader(w);
}

// Gives the next tasks that are done together, and none at the segment's end. Returns false where the worker
// is blocked.
bool Run::next_tasks(uint32_t w, GridId id, std::vector<int64_t>& tasks) {
  Worker& c = consumers_[w];
  if (claims_by_ticket(p_.s.placements[id.index].kind)) return claim_task(w, id, tasks);
  if (c.next >= c.end) return true;
  if (c.end > p_.tasks[id.index].count)
    throw Finding{"outside", fmt::format("worker {} has task {} of the {} of %{}, at {}", w, c.end - 1,
                                         p_.tasks[id.index].count, grid(id).name, to_text(p_.step))};
  int64_t count = in_blocks(grid(id)) ? std::min(c.end - c.next, max_strips(p_.s, p_.step, grid(id))) : 1;
  if (grid(id).body == BodyKind::kSplitKPartial) {
    const int64_t strips = p_.tasks[id.index].within(1);
    count = std::min(count, strips - c.next % strips);
  }
  for (int64_t i = 0; i < count; ++i) tasks.push_back(c.next + i);
  return true;
}

bool Run::claim_task(uint32_t w, GridId id, std::vector<int64_t>& tasks) {
  Worker& c = consumers_[w];
  const Placement& placement = p_.s.placements[id.index];
  const int64_t count = p_.tasks[id.index].count;
  if (draws_by_loader(id)) {
    Loader& loader = loaders_[w];
    if (loader.handed.empty()) {
      c.blocked = {kNone, "for a task of %" + grid(id).name + " from its loader"};
      return false;
    }
    if (loader.handed.front() < 0)
      loader.handed.pop_front();
    else
      tasks.push_back(loader.handed.front());
    return true;
  }
  if (!c.ticket) c.ticket = take_ticket(id);
  if (*c.ticket >= count) {
    c.ticket.reset();
    return true;
  }
  int64_t task = *c.ticket;
  if (placement.kind == PlacementKind::kReady) {
    const Wait& wait = grid(id).waits.at(0);
    const int64_t per_cell = std::max<int64_t>(1, p_.tasks[id.index].within(wait.cell.size()));
    const uint32_t entry = p_.log[wait.event.index] + 1 + static_cast<uint32_t>(task / per_cell);
    if (at(entry) == 0) {
      c.blocked = {entry, "for a cell of @" + p_.s.program.events[wait.event].name};
      block(w, entry);
      return false;
    }
    join(c.clocks, entry);
    task = (int64_t{at(entry)} - 1) * per_cell + task % per_cell;
    if (task >= count) throw Finding{"outside", "a ready task beyond those of %" + grid(id).name};
  }
  tasks.push_back(task);
  return true;
}

// Returns false where the worker is blocked.
bool Run::wait_for(uint32_t w, GridId id, const std::vector<int64_t>& tasks) {
  Worker& c = consumers_[w];
  if (p_.s.placements[id.index].kind == PlacementKind::kReady) return true;
  std::vector<int64_t> coords;
  for (const bool shared : {false, true})
    for (const Wait& wait : grid(id).waits) {
      if (wait.lookup || is_shared(grid(id), wait) != shared || (shared && !c.first)) continue;
      for (const int64_t task : tasks) {
        p_.tasks[id.index].coords_of(task, coords);
        if (!poll(c.clocks, c.blocked, wait, coords, id)) {
          block(w, c.blocked.counter);
          return false;
        }
        if (shared) break;
      }
    }
  return true;
}

void Run::run_tasks(uint32_t w, GridId id, const std::vector<int64_t>& tasks, bool dedupe) {
  Worker& c = consumers_[w];
  const Moment now{w, c.clocks[w]};
  for (const bool writes : {false, true})
    for (const int64_t number : tasks) {
      const uint32_t task = p_.tasks[id.index].base + static_cast<uint32_t>(number);
      if (!writes && ran_[task]++ != 0)
        throw Finding{"twice", fmt::format("task {} of %{} runs twice, at {}", number, grid(id).name,
                                           to_text(p_.step))};
      for (uint32_t u = p_.use_begin[task]; u < p_.use_begin[task + 1]; ++u) {
        const Use& use = p_.uses[u];
        if (use.writes != writes) continue;
        if (writes) {
          p_.memory.write(use, now, c.clocks, task, id.index);
          continue;
        }
        if (dedupe && p_.memory.is_shared(use)) {
          const auto same = [&](const Use& other) { return other.runs == use.runs; };
          if (std::any_of(c.read_once.begin(), c.read_once.end(), same)) continue;
          c.read_once.push_back(use);
        }
        p_.memory.read(use, now, c.clocks, task, id.index);
      }
    }
}

void Run::check_all_ran() const {
  for (GridId g : p_.s.program.grids.ids())
    for (int64_t task = 0; task < p_.tasks[g.index].count; ++task)
      if (ran_[p_.tasks[g.index].base + static_cast<uint32_t>(task)] == 0)
        throw Finding{"not run",
                      fmt::format("nobody runs task {} of %{}, at {}", task, grid(g).name, to_text(p_.step))};
}

void Run::deadlock() const {
  std::string text;
  for (uint32_t w = 0; w < workers_; ++w) {
    const Worker& c = consumers_[w];
    if (c.segment >= p_.s.streams[w].size()) continue;
    text += fmt::format("{}worker {} in %{} waits {}", text.empty() ? "" : "; ", w,
                        grid(p_.s.streams[w][c.segment].grid).name, c.blocked.why);
    if (text.size() > 200) break;
  }
  throw Finding{"deadlock", fmt::format("{}, at {}", text, to_text(p_.step))};
}

}  // namespace mkc::attack
