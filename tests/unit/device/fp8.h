// Tests of 8-bit activations round these by themselves.
#pragma once

#include "tests/unit/device/product.h"

namespace mk {

constexpr WeightType kE4m3Types[] = {WeightType::kE4m3, WeightType::kE4m3Block};

// Returns the nearest number of E4M3 (OCP 8-bit floating point specification), at most 448. A tie goes to
// even.
inline double nearest_e4m3(double v) {
  const double spacing = std::ldexp(1, std::max(v == 0 ? -6 : std::ilogb(v), -6) - 3);
  return std::clamp(std::nearbyint(v / spacing) * spacing, -448.0, 448.0);
}

// Rounds elements [begin, end) of a row, which share a scale. The scale is a power of 2 that puts the
// greatest magnitude between 128 and 256. Returns what codes are to be multiplied with.
inline double round_to_e4m3(std::vector<double>& row, size_t begin, size_t end) {
  double max = 0;
  for (size_t i = begin; i < end; ++i) max = std::max(max, std::abs(row[i]));
  const double scale = max == 0 ? 1 : std::ldexp(1, 7 - std::ilogb(max));
  for (size_t i = begin; i < end; ++i) row[i] = nearest_e4m3(row[i] * scale) / scale;
  return 1 / scale;
}

// Returns rows of bf16, of which each column group has another size, and some groups are 0. Sizes are from
// 2^-`spread` to 2^`spread`.
inline Rounded uneven_rows(const Case& c, const Problem& p, int spread = 20) {
  Rounded in = round_input(c, p, 5);
  for (size_t i = 0; i < in.x.size(); ++i) {
    const size_t token = i / c.cols, group = i % c.cols / 24;
    const int exponent = static_cast<int>(token * 5 + group * 11) % (2 * spread) - spread;
    in.x[i] = group % 7 == 3 ? 0 : to_bf16(std::ldexp(from_bf16(in.x[i]), exponent));
  }
  return in;
}

inline std::vector<double> row_of(const Case& c, const Rounded& in, uint32_t token) {
  std::vector<double> row(c.cols);
  for (uint32_t k = 0; k < c.cols; ++k) row[k] = from_bf16(in.x[token * c.cols + k]);
  return row;
}

}  // namespace mk
