// Which tasks happen before which, under given symbol values. Internal to prove.
#pragma once

#include "scheduler/step.h"

namespace mkc {

// Tasks lie on chains, on each of which those at different places are ordered: one chain for each worker, and
// further ones for inline and claimed tasks, whose worker is not known ahead. Sampled tasks that nobody can
// tell apart share a place. A task's history says how far along every chain the tasks are that happened
// before it; tasks that start with the same history share it.
struct HappensBefore {
  std::vector<uint32_t> chain;                   // by task
  std::vector<uint32_t> place;                   // by task: on its chain, from 1
  std::vector<uint32_t> history;                 // by task: index into histories
  std::vector<std::vector<uint32_t>> histories;  // by chain: last place that happened; 0 past the end
};

// Rule 5 of prove.h, and the order that follows from stream order and events. A run's notifications may be
// added up, so for the cycle check a run waits for all that its tasks wait for before it notifies anything;
// the order counts only on what each task's own notification guarantees.
Result<HappensBefore> order_tasks(const Step& step);

}  // namespace mkc
