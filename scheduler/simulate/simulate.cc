#include "scheduler/simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "scheduler/simulate/simulate_engine.h"

namespace mkc {

uint32_t TaskWalk::take(const Step& step) {
  const Run& r = step.runs[run];
  const uint32_t task = step.task_base[r.grid.index] + r.first + next;
  if (++next == r.count) ++run, next = 0;
  return task;
}

namespace {

// Returns the cell that the loaders of a grid wait for, which all tasks share. Returns TaskTime::kNone where
// there is none.
uint32_t loader_cell(const Step& step, GridId grid) {
  const TaskProgram& program = step.schedule->program;
  for (const Wait& wait : program.grids[grid].waits) {
    if (!wait.lookup) continue;
    int64_t cell = 0;
    for (size_t d = 0; d < wait.cell.size(); ++d)
      cell = cell * evaluate(program.events[wait.event].dims[d], step.symbols) +
             evaluate(wait.cell[d], step.symbols);
    return step.cell_base[wait.event.index] + static_cast<uint32_t>(cell);
  }
  return TaskTime::kNone;
}

// Returns when the first bytes of a stream that has stood still arrive, by the smallest of the cold bursts.
double ramp_ns(const Machine& m) {
  const BurstPoint& first = m.cold_burst.front();
  return std::max(0.0, first.bytes / first.bytes_per_ns - first.bytes / m.stream_bytes_per_ns);
}

}  // namespace

Simulator::Simulator(const Step& step, const Machine& machine, const SimulateOptions& options)
    : step_(step),
      m_(machine),
      options_(options),
      works_(step, machine),
      runs_ahead_(options.run_ahead && !machine.is_processor()),
      ramp_ns_(ramp_ns(machine)),
      memory_(m_.stream_bytes_per_ns, m_.worker_bytes_per_ns),
      l2_(m_.l2_bytes_per_ns - m_.stream_bytes_per_ns,
          m_.is_processor() ? m_.worker_l2_bytes_per_ns : m_.worker_bytes_per_ns),
      loaders_(workers()),
      consumers_(workers()),
      missing_(step.cell_base.back(), 0),
      completed_by_(missing_.size(), kNone),
      waiting_(missing_.size()),
      lookups_(missing_.size()),
      inline_task_(missing_.size(), kNone),
      tickets_(step.schedule->program.grids.size(), 0),
      logs_(step.schedule->program.events.size()),
      claimers_(logs_.size()),
      reads_(workers(), 0),
      span_(workers(), SIZE_MAX),
      stream_(workers(), static_cast<uint8_t>(IdleCause::kRamp)) {
  for (size_t run = 0; run < step.runs.size(); ++run) {
    TaskWalk& walk = loaders_[step.runs[run].worker].walk;
    if (walk.last_run == 0) walk.run = run;
    walk.last_run = run + 1;
  }
  for (GridId g : step.grid_of) result_.tasks.push_back({.grid = g});
  for (uint32_t w = 0; w < workers(); ++w) consumers_[w].walk = loaders_[w].walk;
  for (uint32_t cell : step.notifies.cells) ++missing_[cell];
  for (uint32_t task : step.inline_tasks) inline_task_[step.waits.cells[step.waits.begin[task]]] = task;
  for (GridId g : step.schedule->program.grids.ids()) lookup_cell_.push_back(loader_cell(step, g));
  stream_count_[static_cast<size_t>(IdleCause::kRamp)] = workers();
}

void Simulator::set_timer(double at_ns, Timer::Kind kind, uint32_t w) {
  timers_.add({at_ns, timers_made_++, kind, w});
}

void Simulator::read_later(Timer::Kind kind, uint32_t w, double issued_ns) {
  reads_to_begin_.add({std::max(issued_ns + m_.load_ns, ramp_ns_), timers_made_++, kind, w});
}

TimerQueue* Simulator::next_timers() {
  if (reads_to_begin_.empty()) return timers_.empty() ? nullptr : &timers_;
  if (timers_.empty() || reads_to_begin_.first() < timers_.first()) return &reads_to_begin_;
  return &timers_;
}

void Simulator::fire(const Timer& timer) {
  const uint32_t w = timer.worker;
  switch (timer.kind) {
    case Timer::kConsumer:
      return resume(w);
    case Timer::kLoader:
      loaders_[w].for_event = false;
      if (loaders_[w].for_ticket) hand_over(w);
      return issue_tiles(w);
    case Timer::kTile:
      ++loaders_[w].begun;
      return begin_tile(w);
    case Timer::kCold:
      // Readers from workers() on are the consumers.
      memory_.begin(now_ns_, workers() + w, static_cast<double>(consumers_[w].work.cold_bytes));
      ++reads_[w];
      return;
  }
}

Simulation Simulator::run() {
  for (uint32_t w = 0; w < workers(); ++w) {
    issue_tiles(w);
    resume(w);
  }
  for (;;) {
    TimerQueue* timers = next_timers();
    const double timer_ns = timers ? timers->first().at_ns : std::numeric_limits<double>::infinity();
    const double memory_ns = memory_.next_end_ns(), l2_ns = l2_.next_end_ns();
    const double next_ns = std::min(timer_ns, std::min(memory_ns, l2_ns));
    if (next_ns == std::numeric_limits<double>::infinity()) break;
    if (now_ns_ < ramp_ns_ && next_ns >= ramp_ns_) {
      pass_time(ramp_ns_);
      for (uint32_t w = 0; w < workers(); ++w) note_stream(w);
    }
    pass_time(next_ns);
    uint32_t w = 0;
    if (next_ns == memory_ns) {
      w = memory_.finish(now_ns_);
      if (w < workers()) {
        end_tile(w);
      } else {
        w -= workers();
        --reads_[w];
        resume(w);
      }
    } else if (next_ns == l2_ns) {
      w = l2_.finish(now_ns_);
      end_tile(w);
    } else {
      const Timer due = timers->first();
      timers->remove_first();
      w = due.worker;
      fire(due);
    }
    note_stream(w);
  }
  for (uint32_t w = 0; w < workers(); ++w)
    if (consumers_[w].phase != Consumer::kDone)
      MKC_BUG(fmt::format("worker {} of the simulation waits forever at {}", w,
                          task_name(step_, consumers_[w].task)));
  result_.ns = now_ns_;  // the last tickets are claimed when no task is left
  return std::move(result_);
}

namespace {

// Names and descriptions by IdleCause.
constexpr std::array<std::pair<const char*, const char*>, kIdleCauses> kCauses = {{
    {"ramp", "the step's first bytes are on their way"},
    {"latency", "the ring is empty, copies are issued; or the loader claims a task"},
    {"lookup", "the loaders wait to learn which experts' weights to bring"},
    {"event", "the ring is full, the consumers wait for an event"},
    {"consumers", "the ring is full, the consumers are at work"},
    {"reread", "strips come from L2 again, for further groups of tokens"},
    {"tail", "nothing is left to load: imbalance, and the end of the step"},
    {"worker", "copies come as fast as one worker takes them"},
}};

}  // namespace

const char* idle_cause_name(IdleCause cause) {
  return kCauses[static_cast<size_t>(cause)].first;
}
const char* idle_cause_text(IdleCause cause) {
  return kCauses[static_cast<size_t>(cause)].second;
}

Result<Simulation> simulate(const Schedule& schedule, const Machine& machine, std::vector<int64_t> symbols,
                            const SimulateOptions& options) {
  Result<Step> step = expand_step(schedule, std::move(symbols));
  if (!step.ok()) return step.error();
  Simulation result = Simulator(step.value(), machine, options).run();
  result.floor_ns = static_cast<double>(result.bytes) / machine.stream_bytes_per_ns;
  return result;
}

}  // namespace mkc
