// Events are derived from the regions that tasks read and write.
//
// The pass requires grids with regions and no events. The pass ensures that place() makes a schedule which
// prove() accepts. A task waits, directly or through other tasks, for all earlier tasks that write what it
// reads or overwrites. A task also waits for all earlier tasks that read what it overwrites. The expected
// count of each cell is the number of tasks that notify the cell. The pass runs after split and before place.
// docs/events.md describes the model.
#pragma once

#include <string>
#include <vector>

#include "ir/tasks.h"

namespace mkc {

// EventCosts has the costs and gains of an event's granularity.
struct EventCosts {
  double task_ns = 1000;   // time of a typical producer task
  double notify_ns = 50;   // time of each further cell that a task notifies
  uint32_t workers = 132;  // workers that share the producers' tasks
};

// Derives the events. `reasons`, if given, receives the granularity of each event and why it was chosen, by
// EventId. Errors: a grid that would notify more than 4 events; a grid whose coordinates cannot count the
// tasks that it waits for.
Result<TaskProgram> derive_events(TaskProgram program, const EventCosts& costs,
                                  std::vector<std::string>* reasons = nullptr);

}  // namespace mkc
