// Stages of the ring: how many a run of tasks takes, and how many it holds at once. Written from
// codegen/device/stream.cc and the loops that drain the stages.
#pragma once

#include "ir/schedule.h"
#include "tests/attack/schedules/step.h"

namespace mkc::attack {

struct Stages {
  int64_t taken = 0, held = 0;
};

// Whether the machine of that name multiplies by warpgroups.
bool has_warpgroups(const std::string& machine);

// Strips of a product, or of its part, that are multiplied together at most.
int64_t max_strips(const Schedule& s, const Step& step, const TaskGrid& grid);

// `count` tasks from one with these coordinates on, which are multiplied together; nothing for bodies that
// stream nothing.
Stages stages_of(const Schedule& s, const Step& step, const TaskGrid& grid, std::span<const int64_t> coords,
                 int64_t count);

}  // namespace mkc::attack
