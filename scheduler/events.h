// Events, derived from the regions that tasks read and write.
//
// Requires: grids with regions, no events. Ensures: what place() turns into a schedule that prove() accepts:
// a task waits, directly or by way of others, for all earlier tasks that write what it reads or overwrites,
// or read what it overwrites; each cell's expect is the number of tasks that notify it. Stands after fuse,
// before place. The model: docs/events.md.
#pragma once

#include <string>
#include <vector>

#include "ir/tasks.h"

namespace mkc {

// What an event's granularity costs and gains.
struct EventCosts {
  double task_ns = 1000;   // a typical task of a producer
  double notify_ns = 50;   // each further cell that a task notifies
  uint32_t workers = 132;  // that share the producers' tasks
};

// `reasons`, if given: by EventId, the granularity and why it was chosen.
// Errors: a grid that more than 4 events would have to hear of.
Result<TaskProgram> derive_events(TaskProgram program, const EventCosts& costs,
                                  std::vector<std::string>* reasons = nullptr);

}  // namespace mkc
