// A chain of tasks determines the length of a simulated step.
#pragma once

#include <map>

#include "scheduler/simulate/simulate.h"

namespace mkc {

// PathTask is a task of the chain, with the reason why it began when it did.
struct PathTask {
  uint32_t task = 0;
  // true: the task waited for the task before it in the chain. false: the task before it in the chain ran
  // before it on its worker.
  bool by_event = false;
};

// Returns the chain from the step's first task to the task that ended last.
std::vector<PathTask> critical_path(const Simulation& simulation);

// PathTimes divides the time of the path by cause. The parts make up the step.
struct PathTimes {
  double signal_ns = 0;                // notifications, polls, tickets
  double start_ns = 0;                 // first operands, norms
  double starved_ns = 0;               // products without a tile
  std::map<BodyKind, double> work_ns;  // the rest of the work, by body
  double finish_ns = 0;                // reductions, stores, barriers
};
// Returns the times of the critical path.
PathTimes path_times(const Simulation& simulation, const TaskProgram& program);

}  // namespace mkc
