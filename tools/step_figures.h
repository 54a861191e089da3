// A simulated step has these figures: its time, its floor, and where the rest of the time goes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <utility>

#include "tools/simulated_step.h"

namespace mkc {

// Returns the floor by the time of the step.
double fraction(const Simulation& simulation);

// Returns the time in which the stream moves the padding of packed tiles.
double padding_us(const SimulatedStep& step);

// Returns the least and the greatest of the three simulated steps, because faster figures may lengthen a
// step.
std::pair<double, double> range_ns(const SimulatedStep& step, const StepRange& range);
std::pair<double, double> fraction_range(const SimulatedStep& step, const StepRange& range);

// Returns the figures that `mkc simulate --json` prints.
nlohmann::ordered_json to_json(const SimulatedStep& step, const StepRange& range);

}  // namespace mkc
