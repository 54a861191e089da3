// A run of tasks takes stages of the ring, and holds some at once. They are written from
// codegen/device/stream.cc and the loops that drain the stages.
#pragma once

#include "ir/schedule.h"
#include "tests/attack/schedules/step.h"

namespace mkc::attack {

struct Stages {
  int64_t taken = 0, held = 0;
};

// Returns whether the machine of that name multiplies by warpgroups.
bool has_warpgroups(const std::string& machine);

// Returns how many strips of a product, or of its split, are multiplied together at most.
int64_t max_strips(const Schedule& s, const Step& step, const TaskGrid& grid);

// Returns the stages of `count` tasks that are multiplied together, from the one at `coords` on. Bodies that
// stream nothing have none.
Stages stages_of(const Schedule& s, const Step& step, const TaskGrid& grid, std::span<const int64_t> coords,
                 int64_t count);

}  // namespace mkc::attack
