// A simulated step has these figures: its time, its floor, and where the rest of the time goes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tools/simulated_step.h"

namespace mkc {

// Returns the floor by the time of the step.
double fraction(const Simulation& simulation);

// Returns the figures that `mkc simulate --json` prints.
nlohmann::ordered_json to_json(const SimulatedStep& step, const StepRange& range);

}  // namespace mkc
