// How far results are from the reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace reference {

// Of a row: its L2 distance relative to the reference's norm, and its worst logit. Both are infinite where
// the row has an element that is no number.
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
