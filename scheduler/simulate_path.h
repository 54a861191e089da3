// The chain of tasks that made a simulated step as long as it was.
#pragma once

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

}  // namespace mkc
