// What the tasks of a schedule declare to read and write, for the emulator to hold their accesses against.
#pragma once

#include <memory>

#include "ir/schedule.h"
#include "runtime/emulator/emulator.h"

namespace mkc {

// The regions of a schedule's grids, at each step's values. Elements of activations, outputs, plain weights,
// tables and caches are told apart; what routing makes of a dim is left open. A task may read what it
// declares to write.
std::shared_ptr<mkrt::AccessRules> declared_regions(const Schedule& schedule);

}  // namespace mkc
