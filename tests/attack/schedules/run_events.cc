#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/attack/schedules/finding.h"
#include "tests/attack/schedules/run.h"

namespace mkc::attack {
namespace {

constexpr uint32_t kMaxDepth = 8;
constexpr int64_t kMaxNotified = 1 << 20;

}  // namespace

uint32_t& Run::at(uint32_t counter) {
  if (counter >= counters_.size())
    throw Finding{"counter",
                  fmt::format("counter {} of {}, at {}", counter, counters_.size(), to_text(p_.step))};
  return counters_[counter];
}

void Run::join(std::vector<uint32_t>& clocks, uint32_t counter) const {
  const uint32_t* other = &counter_clocks_[size_t{counter} * workers_];
  for (uint32_t t = 0; t < workers_; ++t) clocks[t] = std::max(clocks[t], other[t]);
}

void Run::publish(uint32_t counter, const std::vector<uint32_t>& clocks) {
  uint32_t* other = &counter_clocks_[size_t{counter} * workers_];
  for (uint32_t t = 0; t < workers_; ++t) other[t] = std::max(clocks[t], other[t]);
}

void Run::block(uint32_t actor, uint32_t counter) {
  waiting_[counter].push_back(actor);
}

void Run::wake(uint32_t counter) {
  for (const uint32_t actor : waiting_[counter]) ready_.push_back(actor);
  waiting_[counter].clear();
}

int64_t Run::take_ticket(GridId id) {
  const uint32_t counter = p_.s.placements[id.index].tickets;
  const int64_t ticket = at(counter)++;
  wake(counter);
  return ticket;
}

void Run::add(uint32_t counter, const std::vector<uint32_t>& clocks) {
  ++at(counter);
  publish(counter, clocks);
  wake(counter);
}

uint32_t Run::counter_of(EventId event, std::span<const int64_t> cell, const char* what, GridId id) const {
  const std::vector<int64_t>& dims = p_.dims[event.index];
  int64_t number = 0;
  if (cell.size() != dims.size()) throw Finding{"cell", "a cell of other dims than its event's"};
  for (size_t d = 0; d < dims.size(); ++d) {
    if (cell[d] < 0 || cell[d] >= dims[d])
      throw Finding{"cell", fmt::format("%{} {} @{}[{}] of [{}], at {}", grid(id).name, what,
                                        p_.s.program.events[event].name, fmt::join(cell, ", "),
                                        fmt::join(dims, ", "), to_text(p_.step))};
    number = number * dims[d] + cell[d];
  }
  return p_.s.event_base[event.index] + static_cast<uint32_t>(number);
}

// Returns false where the wait is not over, and says in `blocked` why.
bool Run::poll(std::vector<uint32_t>& clocks, Blocked& blocked, const Wait& wait,
               std::span<const int64_t> coords, GridId id) {
  std::vector<int64_t> cell;
  for (const Expr& e : wait.cell) cell.push_back(p_.step.at(e, coords));
  const uint32_t counter = counter_of(wait.event, cell, "waits for", id);
  const int64_t expect = p_.step.at(p_.s.program.events[wait.event].expect, cell);
  if (int64_t{at(counter)} < expect) {
    blocked = {counter, fmt::format("for @{}[{}]: {} of {}", p_.s.program.events[wait.event].name,
                                    fmt::join(cell, ", "), at(counter), expect)};
    return false;
  }
  join(clocks, counter);
  return true;
}

// A grid without a table of active experts looks nothing up, so that its lookup waits for nobody.
bool Run::look_up(std::vector<uint32_t>& clocks, Blocked& blocked, GridId id) {
  if (!find_operand(grid(id), "active_experts")) return true;
  for (const Wait& wait : grid(id).waits)
    if (wait.lookup && !poll(clocks, blocked, wait, {}, id)) return false;
  return true;
}

void Run::notify(uint32_t w, GridId id, const std::vector<int64_t>& tasks) {
  const GridId inlined = p_.inlined[id.index];
  const auto runs_inline = [&](const Notify& n) {
    return inlined.valid() && n.event == grid(inlined).waits[0].event;
  };
  std::vector<int64_t> coords;
  const Notify* inlining = nullptr;
  for (const Notify& n : grid(id).notifies)
    if (!inlining && runs_inline(n)) inlining = &n;
  for (const int64_t task : tasks) {
    p_.tasks[id.index].coords_of(task, coords);
    for (const Notify& n : grid(id).notifies)
      if (&n != inlining) notify_box(w, id, n, coords);
  }
  if (inlining)
    notify_inline(w, id, *inlining, tasks);
  else
    ++consumers_[w].clocks[w];
}

void Run::notify_box(uint32_t w, GridId id, const Notify& n, std::span<const int64_t> coords) {
  std::vector<int64_t> lo, hi;
  for (const Range& range : n.cells) {
    lo.push_back(p_.step.at(range.offset, coords));
    hi.push_back(lo.back() + p_.step.at(range.size, coords));
    if (hi.back() <= lo.back()) return;
    if (hi.back() - lo.back() > kMaxNotified) throw Finding{"cell", "too many cells notified"};
  }
  Worker& c = consumers_[w];
  std::vector<int64_t> cell = lo;
  for (;;) {
    const uint32_t counter = counter_of(n.event, cell, "notifies", id);
    const uint32_t log = p_.log[n.event.index];
    if (log != kNone) {
      add(counter, c.clocks);
      if (int64_t{at(counter)} == p_.step.at(p_.s.program.events[n.event].expect)) {
        join(c.clocks, counter);
        const uint32_t entry = log + 1 + at(log)++;
        at(entry) = counter - p_.s.event_base[n.event.index] + 1;
        publish(entry, c.clocks);
        wake(entry);
      }
    } else if (c.late && depth_ == 0) {
      c.held_back.push_back({counter, c.clocks});
    } else {
      add(counter, c.clocks);
    }
    size_t d = cell.size();
    while (d > 0 && ++cell[d - 1] == hi[d - 1]) cell[d - 1] = lo[d - 1], --d;
    if (d == 0) return;
  }
}

// The device takes only the first cell of each task in the last dim. Tasks of a block notify one after the
// other.
void Run::notify_inline(uint32_t w, GridId id, const Notify& n, const std::vector<int64_t>& tasks) {
  std::vector<int64_t> coords, lo, hi;
  p_.tasks[id.index].coords_of(tasks.front(), coords);
  for (const Range& range : n.cells) {
    lo.push_back(p_.step.at(range.offset, coords));
    hi.push_back(lo.back() + std::max<int64_t>(0, p_.step.at(range.size, coords)));
  }
  if (!hi.empty()) hi.back() = lo.back() + 1;
  for (size_t d = 0; d < lo.size(); ++d)
    if (hi[d] <= lo[d]) return void(++consumers_[w].clocks[w]);
  Worker& c = consumers_[w];
  const std::vector<uint32_t> released = c.clocks;
  ++c.clocks[w];
  std::vector<int64_t> cell = lo;
  for (;;) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      std::vector<int64_t> of_task = cell;
      if (!of_task.empty()) of_task.back() += static_cast<int64_t>(i);
      const uint32_t counter = counter_of(n.event, of_task, "notifies", id);
      add(counter, released);
      if (int64_t{at(counter)} != p_.step.at(p_.s.program.events[n.event].expect, of_task)) continue;
      join(c.clocks, counter);
      run_inline(w, p_.inlined[id.index], of_task);
    }
    size_t d = cell.size();
    while (d > 0 && ++cell[d - 1] == hi[d - 1]) cell[d - 1] = lo[d - 1], --d;
    if (d == 0) return;
  }
}

void Run::run_inline(uint32_t w, GridId id, const std::vector<int64_t>& cell) {
  const TaskGrid& g = grid(id);
  const Wait& wait = g.waits[0];
  int64_t task = 0;
  for (uint32_t i = 0; i < g.coords.size(); ++i) {
    const auto walked = std::find(wait.cell.begin(), wait.cell.end(), coord(i));
    if (walked == wait.cell.end() && !g.coords[i].extent.is_const(1))
      throw Finding{"inline", fmt::format("the tasks of %{} do not follow from their cells", g.name)};
    const int64_t value =
        walked == wait.cell.end() ? 0 : cell[static_cast<size_t>(walked - wait.cell.begin())];
    const std::vector<int64_t>& extents = p_.tasks[id.index].extents;
    if (i >= extents.size() || value >= extents[i])
      throw Finding{"inline",
                    fmt::format("%{} runs inline beyond its tasks, at {}", g.name, to_text(p_.step))};
    task = task * extents[i] + value;
  }
  if (++depth_ > kMaxDepth) throw Finding{"inline", "inline tasks without end"};
  run_tasks(w, id, {task}, false);
  notify(w, id, {task});
  --depth_;
}

void Run::check_counts() const {
  for (EventId e : p_.s.program.events.ids()) {
    const std::vector<int64_t>& dims = p_.dims[e.index];
    int64_t cells = 1;
    for (const int64_t dim : dims) cells *= dim;
    std::vector<int64_t> cell(dims.size());
    for (int64_t number = 0; number < cells; ++number) {
      int64_t rest = number;
      for (size_t d = dims.size(); d-- > 0; rest /= dims[d]) cell[d] = rest % dims[d];
      const int64_t expect = p_.step.at(p_.s.program.events[e].expect, cell);
      const size_t counter = p_.s.event_base[e.index] + static_cast<size_t>(number);
      const int64_t found = counter < counters_.size() ? counters_[counter] : -1;
      if (found != expect)
        throw Finding{"count", fmt::format("@{}[{}] expects {}, gets {}, at {}", p_.s.program.events[e].name,
                                           fmt::join(cell, ", "), expect, found, to_text(p_.step))};
    }
  }
}

}  // namespace mkc::attack
