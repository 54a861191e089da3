// This header checks events task by task and element by element, from their definition alone.
#pragma once

#include <string>
#include <vector>

#include "ir/tasks.h"

namespace mkc::test {

// Returns the first fault under these symbol values, or "" if there is none. One fault is a task that
// notifies a cell outside its event. Another is an expect that differs from the number of notifying tasks.
// The third is a task that touches an element too early: its waits must order it behind all earlier tasks
// that it depends on.
std::string event_fault(const TaskProgram& program, const std::vector<int64_t>& symbols);

}  // namespace mkc::test
