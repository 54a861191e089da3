// This header measures how far results are from the reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace reference {

// Distance is the L2 distance of a row relative to the reference's norm, and the worst error of a logit. Both
// are infinite if the row has an element that is not finite.
struct Distance {
  double relative = 0;
  double logit = 0;
};

template <class T>
Distance row_distance(const T* row, const std::vector<double>& expected) {
  double error = 0, norm = 0, logit = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double d = static_cast<double>(row[i]) - expected[i];
    error += d * d;
    norm += expected[i] * expected[i];
    logit = std::max(logit, std::abs(d));
  }
  if (!std::isfinite(error)) return {INFINITY, INFINITY};
  return {std::sqrt(error / norm), logit};
}

}  // namespace reference
