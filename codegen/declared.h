// What the tasks of a schedule declare to read and write, for the emulator to hold their accesses against.
#pragma once

#include <memory>

#include "ir/schedule.h"
#include "runtime/emulator/emulator.h"

namespace mkc {

// The regions of a schedule's grids, at each step's values and at what its routing chose. A task may read
// what it declares to write. Of a packed weight the rows r and r + 8 of a strip are read together.
std::shared_ptr<mkrt::AccessRules> declared_regions(const Schedule& schedule);

}  // namespace mkc
