#include "tools/hops.h"

#include <algorithm>

#include "scheduler/simulate/simulate_path.h"

namespace mkc {

std::vector<HopRow> critical_hops(const SimulatedStep& step, const Kinds& kinds) {
  const auto kind_of = [&](const TaskTime& task) { return kinds.first[kinds.of_grid[task.grid.index]]; };
  std::vector<HopRow> rows;
  const std::vector<PathTask> path = critical_path(step.simulation);
  for (size_t i = 1; i < path.size(); ++i) {
    if (!path[i].by_event) continue;
    const TaskTime &from = step.simulation.tasks[path[i - 1].task], &to = step.simulation.tasks[path[i].task];
    const GridId from_kind = kind_of(from), to_kind = kind_of(to);
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const HopRow& r) { return r.from == from_kind && r.to == to_kind; });
    if (row == rows.end()) row = rows.insert(row, HopRow{from_kind, to_kind});
    ++row->count;
    row->finish_ns += from.end_ns - from.worked_ns;
    row->signal_ns += to.begin_ns - from.end_ns;
    row->start_ns += to.ready_ns - to.begin_ns;
  }
  return rows;
}

}  // namespace mkc
