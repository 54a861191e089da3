#include "scheduler/simulate/simulate_path.h"

#include <algorithm>

namespace mkc {

std::vector<PathTask> critical_path(const Simulation& simulation) {
  std::vector<PathTask> path;
  const auto ends_earlier = [](const TaskTime& a, const TaskTime& b) { return a.end_ns < b.end_ns; };
  const auto last = std::max_element(simulation.tasks.begin(), simulation.tasks.end(), ends_earlier);
  if (last == simulation.tasks.end()) return path;
  auto task = static_cast<uint32_t>(last - simulation.tasks.begin());
  while (task != TaskTime::kNone) {
    const TaskTime& time = simulation.tasks[task];
    const bool by_event = time.awaited != TaskTime::kNone;
    path.push_back({task, by_event});
    task = by_event ? time.awaited : time.previous;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

PathTimes path_times(const Simulation& simulation, const TaskProgram& program) {
  PathTimes times;
  double at_ns = 0;
  for (const PathTask& step : critical_path(simulation)) {
    const TaskTime& task = simulation.tasks[step.task];
    times.signal_ns += task.begin_ns - at_ns;
    times.start_ns += task.ready_ns - task.begin_ns;
    times.starved_ns += task.starved_ns;
    times.work_ns[program.grids[task.grid].body] += task.worked_ns - task.ready_ns - task.starved_ns;
    times.finish_ns += task.end_ns - task.worked_ns;
    at_ns = task.end_ns;
  }
  times.signal_ns += simulation.ns - at_ns;
  return times;
}

}  // namespace mkc
