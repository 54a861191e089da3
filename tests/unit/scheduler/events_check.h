// Events checked task by task and element by element, by nothing but their definition.
#pragma once

#include <string>
#include <vector>

#include "ir/tasks.h"

namespace mkc::test {

// The first fault under these symbol values, "" for none: a cell outside its event, an expect that is not the
// number of notifying tasks, or a task that touches an element before a task of an earlier grid it depends on
// is known, by waits alone, to have finished.
std::string event_fault(const TaskProgram& program, const std::vector<int64_t>& symbols);

}  // namespace mkc::test
