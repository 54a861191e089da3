// The chain of tasks that made a simulated step as long as it was.
#pragma once

#include <map>

#include "scheduler/simulate.h"

namespace mkc {

// A task of the chain, and how it came to begin when it did.
struct PathTask {
  uint32_t task = 0;
  bool by_event =
      false;  // it stood still for the task before it in the chain; else that ran before it on its worker
};

// From the step's first task to the one that ended last.
std::vector<PathTask> critical_path(const Simulation& simulation);

// Where the time of the path went; the parts make up the step.
struct PathTimes {
  double signal_ns = 0;                // notifications, polls, tickets
  double start_ns = 0;                 // first operands, norms
  double starved_ns = 0;               // products without a tile
  std::map<BodyKind, double> work_ns;  // the rest of the work
  double finish_ns = 0;                // reductions, stores, barriers
};
PathTimes path_times(const Simulation& simulation, const TaskProgram& program);

}  // namespace mkc
