// What a step's counters hold at its end, by the schedule alone: the emulator holds every run against it.
#pragma once

#include "codegen/mode.h"
#include "ir/schedule.h"
#include "runtime/emulator/counts.h"

namespace mkc {

// By grid: the tensor whose first word says how many experts have tokens, where the grid's tasks or events
// depend on it; else mkrt::kNotLookedUp.
std::vector<uint32_t> looked_up_tensors(const Schedule& schedule);

// Each event's cells have what they expect, each log every cell that expects something, and of each grid
// that is claimed every worker has one ticket beyond the last. Kernels of grids leave all counters at 0. Each
// task of a grid is run once.
mkrt::CountStep step_counts(const Schedule& schedule, Mode mode);

}  // namespace mkc
