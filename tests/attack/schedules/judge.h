// The judge says whether a schedule is safe, as far as some steps in some orders tell.
#pragma once

#include <optional>

#include "tests/attack/schedules/finding.h"
#include "tests/attack/schedules/step.h"

namespace mkc::attack {

struct Effort {
  uint32_t steps = 8;      // steps in addition to those of the hints
  uint32_t orders = 2;     // orders of each step
  int64_t max_tokens = 0;  // limit of steps that are not of the hints; 0: as many as there may be
};

// Returns the first finding, or nothing for a schedule that seems safe.
std::optional<Finding> judge(const Schedule& s, const std::vector<Hint>& hints, const Effort& effort,
                             Rng rng);

}  // namespace mkc::attack
