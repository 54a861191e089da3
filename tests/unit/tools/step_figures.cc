// A simulated step lies within the range that is printed beside it.
#include "tools/step_figures.h"

#include <doctest/doctest.h>

namespace mkc {
namespace {

Simulation simulation(double ns, double floor_ns) {
  Simulation s;
  s.ns = ns, s.floor_ns = floor_ns;
  return s;
}

TEST_CASE("the range of a step holds its value, and its ends are in order") {
  SimulatedStep step;
  StepRange range;
  step.simulation = simulation(29'400, 10'000);
  range.fast = simulation(29'500, 8'000), range.slow = simulation(29'450, 12'000);  // not monotone
  CHECK(range_ns(step, range) == std::pair(29'400.0, 29'500.0));
  CHECK(fraction_range(step, range) == std::pair(8'000 / 29'500.0, 12'000 / 29'450.0));
  step.simulation = simulation(30'000, 3'000);
  CHECK(range_ns(step, range) == std::pair(29'450.0, 30'000.0));
  CHECK(fraction_range(step, range).first == doctest::Approx(0.1));
}

}  // namespace
}  // namespace mkc
