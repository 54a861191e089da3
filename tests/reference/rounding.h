// These functions round to f16, bf16 and E4M3, to nearest even.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/reference/model.h"

namespace reference {

inline uint16_t bf16_bits(double value) {
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline double to_bf16(double value) {
  return static_cast<double>(std::bit_cast<float>(uint32_t{bf16_bits(value)} << 16));
}

inline double to_f16(double value) {
  return static_cast<double>(static_cast<_Float16>(static_cast<float>(value)));
}

inline double rounded(double value, Type t) {
  if (t == Type::kF16) return to_f16(value);
  if (t == Type::kBf16) return to_bf16(value);
  return static_cast<double>(static_cast<float>(value));
}

// Returns the nearest number of E4M3 (OCP 8-bit floating point specification), at most 448. A tie goes to
// even.
inline double to_e4m3(double value) {
  int exponent;
  std::frexp(value, &exponent);  // value is in [2^(exponent - 1), 2^exponent)
  const double spacing = std::ldexp(1, std::max(exponent - 1, -6) - 3);
  return std::clamp(std::nearbyint(value / spacing) * spacing, -448.0, 448.0);
}

// Returns the code of a number that E4M3 has.
inline uint8_t e4m3_bits(double value) {
  const double magnitude = std::abs(value);
  const int sign = std::signbit(value) ? 0x80 : 0;
  if (magnitude < 0x1p-6) return static_cast<uint8_t>(sign | static_cast<int>(magnitude * 512));
  const int exponent = std::ilogb(magnitude);
  return static_cast<uint8_t>(sign | (exponent + 7) << 3 |
                              static_cast<int>(std::ldexp(magnitude, 3 - exponent) - 8));
}

}  // namespace reference
