// Simulated consumers wait, work and notify.
#include <algorithm>

#include "ir/waits.h"
#include "scheduler/simulate/simulate_engine.h"

namespace mkc {

void Simulator::resume(uint32_t w) {
  Consumer& c = consumers_[w];
  if (c.for_stage) result_.tasks[c.task].starved_ns += now_ns_ - c.starved_since_ns;
  c.for_event = c.for_stage = c.for_task = false;
  while (go_on(w)) {
  }
}

namespace {

uint32_t consecutive(const std::deque<uint32_t>& tasks) {
  uint32_t count = 1;
  while (count < tasks.size() && tasks[count] == tasks[0] + count) ++count;
  return count;
}

}  // namespace

// Does the work that the phase begins with. Returns false where a timer or another worker will resume the
// worker.
bool Simulator::go_on(uint32_t w) {
  Consumer& c = consumers_[w];
  switch (c.phase) {
    case Consumer::kNext:
      return next_task(w);
    case Consumer::kClaim:
      return take_claimed(w);
    case Consumer::kWait:
      return !begin_wait(w);
    case Consumer::kStart:
      if (!runs_ahead_) issue_tiles(w);
      c.phase = Consumer::kCold;
      return !takes(w, c.place == 0 && (c.first_of_run || !c.work.starts_once) ? c.work.start_ns : 0);
    case Consumer::kCold:
      c.phase = Consumer::kBusy;
      result_.tasks[c.task].ready_ns = now_ns_;
      if (c.work.cold_bytes == 0) return true;
      read_later(Timer::kCold, w, now_ns_);
      return false;
    case Consumer::kBusy:
      c.phase = c.work.tiles * c.work.passes > 0 ? Consumer::kTake : Consumer::kEnd;
      return !takes(w, c.work.busy_ns);
    case Consumer::kTake:
      if (!take_stage(w)) {
        c.for_stage = true;
        c.starved_since_ns = now_ns_;
      }
      return false;
    case Consumer::kRelease:
      release_stage(w);
      return c.tile != 0 || !c.ends_block() || !takes(w, c.work.pass_ns);
    case Consumer::kEnd:
      if (c.work.tiles == 0) result_.tasks[c.task].worked_ns = now_ns_;
      result_.tasks[c.task].end_ns = now_ns_;
      c.phase = c.ends_block() ? Consumer::kNotify : Consumer::kNext;
      return !c.ends_block() || !takes(w, end_ns(c));
    case Consumer::kNotify:
      result_.tasks[c.task].end_ns = now_ns_;
      for (uint32_t task = c.task - c.place; task <= c.task; ++task) notify(w, task);
      c.phase = Consumer::kNext;
      return true;
    case Consumer::kDone:
      return false;
  }
  MKC_BUG("consumer in an unknown phase");
}

bool Simulator::takes(uint32_t w, double ns) {
  if (ns > 0) set_timer(now_ns_ + ns, Timer::kConsumer, w);
  return ns > 0;
}

// Inline tasks have nothing to wait for, as this worker completed their cell. Consecutive inline tasks are
// one block.
bool Simulator::next_task(uint32_t w) {
  Consumer& c = consumers_[w];
  c.phase = Consumer::kWait;
  if (!c.inline_tasks.empty()) {
    const uint32_t task = c.inline_tasks.front();
    const bool begins = c.ends_block();
    const uint32_t place = begins ? 0 : c.place + 1, block = begins ? consecutive(c.inline_tasks) : c.block;
    c.inline_tasks.pop_front();
    c.first_of_run = false;
    begin_task(w, task, place, block);
    c.phase = Consumer::kStart;
  } else if (c.walk.done()) {
    c.phase = Consumer::kDone;
    return false;
  } else if (c.walk.at(step_).claimed) {
    return claim_for_consumer(w);
  } else {
    c.first_of_run = c.walk.next == 0;
    const Run& run = c.walk.at(step_);
    const bool begins = c.ends_block();
    const uint32_t place = begins ? 0 : c.place + 1, left = run.count - c.walk.next;
    const uint32_t block = begins ? std::min(works_.block(run.grid, run.first + c.walk.next), left) : c.block;
    begin_task(w, c.walk.take(step_), place, block);
    return !c.first_of_run || !takes(w, works_.dispatch_ns());
  }
  return true;
}

void Simulator::begin_task(uint32_t w, uint32_t task, uint32_t place, uint32_t block) {
  Consumer& c = consumers_[w];
  TaskTime& time = result_.tasks[task];
  time.previous = c.task;
  c.task = task;
  c.wait = c.pass = c.tile = 0;
  c.place = place;
  c.block = block;
  c.work = works_.of(task, block);
  time.worker = w;
  time.bytes = c.work.needed_bytes + c.work.cold_bytes;
  result_.bytes += time.bytes;
  result_.padding_bytes += c.work.padding_bytes();
  time.reached_ns = time.begin_ns = now_ns_;
}

// Returns false where nothing is left to wait for. The first task of a run has waited for the cells that all
// its tasks share.
bool Simulator::begin_wait(uint32_t w) {
  Consumer& c = consumers_[w];
  const uint32_t at = step_.waits.begin[c.task] + c.wait;
  if (at == step_.waits.begin[c.task + 1]) {
    c.phase = Consumer::kStart;
    result_.tasks[c.task].begin_ns = now_ns_;
    return false;
  }
  const TaskGrid& grid = step_.schedule->program.grids[step_.grid_of[c.task]];
  const Wait& wait = grid.waits[c.wait++];
  if (waits_once(grid, wait) && !c.first_of_run) return begin_wait(w);
  c.for_event = true;
  c.seen_ns = m_.barrier_ns + (wait.lookup ? c.work.lookup_ns : 0);
  if (!options_.fused) c.seen_ns += fused_stages(grid).before * hop_ns(m_);
  const uint32_t cell = step_.waits.cells[at];
  if (missing_[cell] > 0) {
    waiting_[cell].push_back(w);
    return true;
  }
  const double seen_ns = result_.tasks[completed_by_[cell]].end_ns + notified_ns(cell) - now_ns_;
  if (seen_ns > m_.poll_ns) result_.tasks[c.task].awaited = completed_by_[cell];
  takes(w, std::max(m_.poll_ns, seen_ns) + c.seen_ns);
  return true;
}

double Simulator::notified_ns(uint32_t cell) const {
  if (options_.fused) return m_.store_ns + m_.notify_ns;
  const GridId by = step_.grid_of[completed_by_[cell]];
  return m_.store_ns + m_.notify_ns + fused_stages(step_.schedule->program.grids[by]).after * hop_ns(m_);
}

double Simulator::stream_share(const Consumer& c) const {
  return now_ns_ > c.took_ns ? (flowed_ns_ - c.took_flowed_ns) / (now_ns_ - c.took_ns) : 1;
}

// Returns false where the stage is not filled yet.
bool Simulator::take_stage(uint32_t w) {
  Consumer& c = consumers_[w];
  if (loaders_[w].filled == 0) return false;
  --loaders_[w].filled;
  c.phase = Consumer::kRelease;
  const double left = m_.l2_bytes_per_ns - stream_share(c) * m_.stream_bytes_per_ns;
  const double byte_ns = std::max(c.work.byte_ns, c.work.l2_bytes / left);
  c.took_ns = now_ns_;
  c.took_flowed_ns = flowed_ns_;
  takes(w, c.work.tile_bytes(c.tile) * byte_ns);
  return true;
}

void Simulator::release_stage(uint32_t w) {
  Consumer& c = consumers_[w];
  result_.tasks[c.task].worked_ns = now_ns_;
  --loaders_[w].taken;
  issue_tiles(w);
  c.phase = Consumer::kTake;
  if (++c.tile < c.work.tiles) return;
  c.tile = 0;
  if (++c.pass == c.work.passes) c.phase = Consumer::kEnd;
}

// A task that may have to run another task inline first learns whether it was the last to arrive.
double Simulator::end_ns(const Consumer& c) const {
  const auto first = step_.notifies.cells.begin();
  const bool asks =
      std::any_of(first + step_.notifies.begin[c.task], first + step_.notifies.begin[c.task + 1],
                  [&](uint32_t cell) { return inline_task_[cell] != kNone; });
  return c.work.end_ns + (asks ? m_.notify_ns : 0);
}

void Simulator::notify(uint32_t w, uint32_t task) {
  Consumer& c = consumers_[w];
  for (uint32_t i = step_.notifies.begin[task]; i < step_.notifies.begin[task + 1]; ++i) {
    const uint32_t cell = step_.notifies.cells[i];
    if (--missing_[cell] > 0) continue;
    completed_by_[cell] = c.task;
    enter_in_log(cell);
    if (inline_task_[cell] != kNone) c.inline_tasks.push_back(inline_task_[cell]);
    for (uint32_t waiter : waiting_[cell]) {
      result_.tasks[consumers_[waiter].task].awaited = c.task;
      takes(waiter, notified_ns(cell) + consumers_[waiter].seen_ns);
    }
    for (uint32_t waiter : lookups_[cell]) set_timer(now_ns_ + notified_ns(cell), Timer::kLoader, waiter);
    waiting_[cell].clear();
    lookups_[cell].clear();
  }
}

}  // namespace mkc
