// A schedule's tasks declare the regions that they read and write. The emulator checks each access against
// them.
#pragma once

#include <memory>

#include "ir/schedule.h"
#include "runtime/emulator/emulator.h"

namespace mkc {

// Returns rules that check accesses against the regions of a schedule's grids. Regions are evaluated with
// each step's symbol values and with the experts that its routing chose.
//
// A task may read elements that it declares to write. Rows r and r + 8 of a packed weight's strip are read
// together. An element of a page that several requests share belongs to each of them.
std::shared_ptr<mkrt::AccessRules> declared_regions(const Schedule& schedule);

}  // namespace mkc
