// worse() keeps the worst of errors that a test compares with a bound.
#pragma once

#include <cmath>

namespace mkc::test {

// Returns the greater of both, or infinity where either is NaN. std::max() would drop a NaN.
inline double worse(double worst, double error) {
  if (std::isnan(worst) || std::isnan(error)) return INFINITY;
  return worst < error ? error : worst;
}

}  // namespace mkc::test
