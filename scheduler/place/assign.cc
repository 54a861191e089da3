#include "scheduler/place/assign.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "runtime/abi/packing.h"
#include "scheduler/machine/cost.h"
#include "scheduler/machine/order.h"

namespace mkc {
namespace {

// Returns the grids that notify each event.
std::vector<std::vector<GridId>> event_notifiers(const TaskProgram& program) {
  std::vector<std::vector<GridId>> notifiers(program.events.size());
  for (GridId g : program.grids.ids())
    for (const Notify& notify : program.grids[g].notifies) notifiers[notify.event.index].push_back(g);
  return notifiers;
}

// Assigns tasks to workers. All workers get the same number of a grid's tasks, give or take one, as the next
// grid waits for the slowest worker. Remaining tasks go to the workers that have streamed the fewest bytes of
// the grids that start together. The slowest worker of these grids is waited for as well. Ties go to the
// workers that have streamed the fewest bytes of the step. The remainder of one grid thus evens out that of
// another.
class ByteBalance {
 public:
  // `max_behind` is the number of bytes that a worker can catch up with.
  ByteBalance(uint32_t workers, uint64_t max_behind)
      : max_behind_(max_behind), streamed_(workers), order_(workers) {
    std::iota(order_.begin(), order_.end(), 0u);
  }

  // Must be called before the first of several grids that start together.
  void start_together() {
    const auto by_step = [](const Streamed& a, const Streamed& b) { return a.step < b.step; };
    const uint64_t max = std::max_element(streamed_.begin(), streamed_.end(), by_step)->step;
    for (Streamed& s : streamed_) s = {0, std::max(s.step, max - std::min(max, max_behind_))};
  }

  // Returns the number of tasks of each worker.
  std::vector<uint32_t> assign(uint32_t tasks, uint64_t task_bytes) {
    const auto workers = static_cast<uint32_t>(streamed_.size());
    std::vector<uint32_t> share(workers, tasks / workers);
    std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(streamed_[a].together, streamed_[a].step, a) <
             std::tuple(streamed_[b].together, streamed_[b].step, b);
    });
    for (uint32_t i = 0; i < tasks % workers; ++i) ++share[order_[i]];
    for (uint32_t w = 0; w < workers; ++w) {
      streamed_[w].together += share[w] * task_bytes;
      streamed_[w].step += share[w] * task_bytes;
    }
    return share;
  }

 private:
  struct Streamed {
    uint64_t together = 0, step = 0;  // bytes of grids that start together, and of the step so far
  };
  uint64_t max_behind_;
  std::vector<Streamed> streamed_;  // by worker
  std::vector<uint32_t> order_;     // workers, sorted by bytes in assign()
};

std::vector<uint32_t> even_shares(uint32_t tasks, uint32_t workers) {
  std::vector<uint32_t> share(workers);
  for (uint64_t w = 0; w < workers; ++w)
    share[w] = static_cast<uint32_t>(tasks * (w + 1) / workers - tasks * w / workers);
  return share;
}

// Tells whether both grids wait for the same events. Grids with the same events start together.
bool start_together(const TaskGrid& a, const TaskGrid& b) {
  return std::equal(a.waits.begin(), a.waits.end(), b.waits.begin(), b.waits.end(),
                    [](const Wait& x, const Wait& y) { return x.event == y.event; });
}

// Rotates the grid shares of attention by one worker more from layer to layer. Consider layers in a row with
// the same number of tasks each. No two workers then take totals that differ by more than one. The bytes that
// attention streams depend on the contexts, so no share can be weighed here.
void rotate_attention(Schedule& schedule, const std::vector<GridId>& order) {
  uint32_t rotation = 0;
  for (GridId g : order)
    if (schedule.program.grids[g].body == BodyKind::kAttend &&
        schedule.placements[g.index].kind == PlacementKind::kRange)
      schedule.placements[g.index].rotation = rotation++ % schedule.workers;
}

// GridShare is a grid whose tasks are assigned by number.
struct GridShare {
  GridId grid;
  uint32_t tasks;
  uint64_t task_bytes;  // bytes that each task streams
};

// Appends the segments of grids that are assigned as one contiguous list. A worker gets consecutive tasks of
// as few of the grids as possible.
void add_segments(Schedule& schedule, const std::vector<GridShare>& grids,
                  const std::vector<uint32_t>& share) {
  size_t at = 0;
  uint32_t first = 0;
  for (uint32_t w = 0; w < schedule.workers; ++w)
    for (uint32_t left = share[w]; left != 0;) {
      const uint32_t count = std::min(left, grids[at].tasks - first);
      if (count != 0) schedule.streams[w].push_back({grids[at].grid, first, count});
      left -= count;
      first += count;
      if (first == grids[at].tasks) ++at, first = 0;
    }
}

void fill_streams(Schedule& schedule, const Machine& machine, const std::vector<GridId>& order,
                  bool balance_grids) {
  const TaskProgram& program = schedule.program;
  const std::vector<int64_t> symbols = decode_symbols(program);
  // A worker without a task of a grid fills its ring and then waits until the grid is done. In simulated
  // steps it catches up with half a ring.
  const ByteBalance fresh(schedule.workers, uint64_t{schedule.ring.stages} * schedule.ring.stage_bytes / 2);
  ByteBalance balance = fresh;
  const TaskGrid* before = nullptr;
  const auto grid_share = [&](GridId g) {
    return GridShare{g, static_cast<uint32_t>(task_count(program.grids[g], symbols)),
                     task_cost(program, g, machine, symbols).stream_bytes};
  };
  const auto kind = [&](GridId g) { return schedule.placements[g.index].kind; };
  schedule.streams.assign(schedule.workers, {});
  for (size_t i = 0; i < order.size(); ++i) {
    const GridId g = order[i];
    if (kind(g) == PlacementKind::kInline) continue;
    if (kind(g) != PlacementKind::kTable) {
      for (auto& stream : schedule.streams) stream.push_back({g, 0, 0});
      continue;
    }
    std::vector<GridShare> together{grid_share(g)};
    uint32_t tasks = together[0].tasks;
    const uint64_t bytes = together[0].task_bytes;
    for (; !balance_grids && bytes != 0 && i + 1 < order.size(); ++i) {
      const GridId id = order[i + 1];
      if (kind(id) != PlacementKind::kTable || !start_together(program.grids[g], program.grids[id])) break;
      const GridShare next = grid_share(id);
      if (next.task_bytes != bytes) break;
      together.push_back(next);
      tasks += next.tasks;
    }
    if (balance_grids) balance = fresh;
    if (!before || !start_together(*before, program.grids[g])) balance.start_together();
    before = &program.grids[g];
    add_segments(schedule, together,
                 bytes == 0 ? even_shares(tasks, schedule.workers) : balance.assign(tasks, bytes));
  }
}

}  // namespace

Result<std::vector<GridId>> critical_path_order(const TaskProgram& program, const Machine& machine) {
  const auto notifiers = event_notifiers(program);
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  std::vector<std::vector<uint32_t>> consumers(program.grids.size());
  for (GridId g : program.grids.ids())
    for (const Wait& wait : program.grids[g].waits)
      for (GridId source : notifiers[wait.event.index]) {
        edges.emplace_back(source.index, g.index);
        consumers[source.index].push_back(g.index);
      }
  const TopologicalOrder sorted = topological_order(program.grids.size(), edges);
  if (!sorted.cycle.empty()) {
    std::string path;
    for (uint32_t g : sorted.cycle) path += fmt::format("%{} -> ", program.grids.items[g].name);
    return Error{fmt::format("error: grids wait for each other: {}%{}", path,
                             program.grids.items[sorted.cycle.front()].name)};
  }

  // to_end_ns is the time from a grid's start to the end of the step, if every grid began with an idle
  // stream.
  const std::vector<int64_t> symbols = decode_symbols(program);
  std::vector<double> to_end_ns(program.grids.size(), 0);
  for (auto it = sorted.order.rbegin(); it != sorted.order.rend(); ++it) {
    const GridId g{*it};
    const TaskCost cost = task_cost(program, g, machine, symbols);
    const auto tasks = static_cast<double>(task_count(program.grids[g], symbols));
    double after_ns = 0;
    for (uint32_t consumer : consumers[g.index]) after_ns = std::max(after_ns, to_end_ns[consumer]);
    to_end_ns[g.index] = after_ns + hop_ns(machine) + machine.task_ns +
                         burst_ns(machine, tasks * static_cast<double>(cost.stream_bytes));
  }
  std::vector<GridId> order = program.grids.ids();
  std::sort(order.begin(), order.end(), [&](GridId a, GridId b) {
    return std::pair(-to_end_ns[a.index], a) < std::pair(-to_end_ns[b.index], b);
  });
  return order;
}

Result<Schedule> assign(TaskProgram program, std::vector<Placement> placements, const Machine& machine,
                        const AssignOptions& options) {
  Result<std::vector<GridId>> order = critical_path_order(program, machine);
  if (!order.ok()) return order.error();
  Schedule schedule;
  schedule.program = std::move(program);
  schedule.machine = machine.name;
  schedule.workers = options.workers != 0 ? options.workers : machine.workers;
  schedule.placements = std::move(placements);
  schedule.ring = {options.ring != 0 ? options.ring : machine.ring_stages, mkrt::kStageBytes};
  if (!options.balance_grids) rotate_attention(schedule, order.value());
  fill_streams(schedule, machine, order.value(), options.balance_grids);
  return schedule;
}

}  // namespace mkc
