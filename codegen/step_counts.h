// The counter values at the end of a step follow from the schedule alone. The emulator checks every run
// against them.
#pragma once

#include "codegen/mode.h"
#include "ir/schedule.h"
#include "runtime/emulator/counts.h"

namespace mkc {

// Returns, by grid, the tensor whose first word is the number of active experts. The entry is
// mkrt::kNotLookedUp for grids that do not read such a tensor.
std::vector<uint32_t> looked_up_tensors(const Schedule& schedule);

// Returns a function that computes a step's final counters and task counts. Each cell holds its expected
// number. Each log holds every cell that expects notifications. The ticket counter of a claimed grid holds
// its tasks plus one ticket per worker.
//
// Each task of a grid runs once. Mode kKernels leaves all counters at 0.
mkrt::CountStep step_counts(const Schedule& schedule, Mode mode);

}  // namespace mkc
