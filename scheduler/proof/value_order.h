// Tasks happen in an order that follows from given symbol values. This header is internal to prove.
#pragma once

#include "scheduler/place/step.h"

namespace mkc {

// Tasks lie on chains. Tasks at different places of one chain are ordered. Each worker has a chain. Further
// chains hold inline and claimed tasks, whose worker is not known ahead. Claimed tasks that no other task can
// tell apart share a place. The history of a task holds, for every chain, the last place that happened before
// the task. Tasks that start with the same history share it.
struct HappensBefore {
  std::vector<uint32_t> chain;                   // by task
  std::vector<uint32_t> place;                   // by task: position on its chain, from 1
  std::vector<uint32_t> history;                 // by task: index into histories
  std::vector<std::vector<uint32_t>> histories;  // by chain: last place that happened; 0 past the end
};

// Checks rule 5 of prove.h and derives the order from streams and events. A run may add its notifications up.
// In the cycle check a run therefore waits for all cells of its tasks before it notifies. The order relies
// only on the guarantee of each task's own notification.
Result<HappensBefore> order_tasks(const Step& step);

}  // namespace mkc
