// Small floating-point formats have 8 or 16 bits (PTX ISA, "Alternate Floating-Point Data Formats", "cvt").
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace softgpu {

inline float as_float(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline uint32_t as_bits(float f) {
  return std::bit_cast<uint32_t>(f);
}

// A format has `mantissa` bits, and its smallest normal number is 2^min.
struct SmallFormat {
  int mantissa, min;
};
constexpr SmallFormat kF16{10, -14}, kBf16{7, -126}, kE4m3{3, -6};

// Returns the magnitude that a code without its sign stands for. The code must be a number.
inline double small_value(uint32_t code, SmallFormat f) {
  const uint32_t exponent = code >> f.mantissa, fraction = code & ((1u << f.mantissa) - 1);
  const uint32_t whole = exponent ? fraction | 1u << f.mantissa : fraction;
  return std::ldexp(whole, static_cast<int>(exponent ? exponent - 1 : 0) + f.min - f.mantissa);
}
// Returns the code of the nearest magnitude, ties to even. Exponents have no upper limit here.
inline uint32_t small_code(double magnitude, SmallFormat f) {
  if (magnitude == 0) return 0;
  const int exponent = std::max(std::ilogb(magnitude), f.min);
  const double steps = std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent));
  return (static_cast<uint32_t>(exponent - f.min) << f.mantissa) + static_cast<uint32_t>(steps);
}

inline float of_bf16(uint32_t h) {
  return as_float(h << 16);
}
inline uint16_t bf16_of(float f) {
  if (std::isnan(f)) return 0x7fff;
  const uint32_t b = as_bits(f);
  return static_cast<uint16_t>((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

// Returns the bf16 nearest to a number that doubles hold.
inline uint16_t bf16_of_exact(double v) {
  if (std::isnan(v)) return 0x7fff;
  const uint32_t sign = std::signbit(v) ? 0x8000 : 0, infinite = 0x7f80;
  const uint32_t code = std::isinf(v) ? infinite : small_code(std::fabs(v), kBf16);
  return static_cast<uint16_t>(sign | std::min(code, infinite));
}

inline float of_f16(uint32_t h) {
  const uint32_t code = h & 0x7fff;
  if (code >= 0x7c00) return as_float((h & 0x8000) << 16 | 0x7f800000 | (code & 0x3ff) << 13);
  const float v = static_cast<float>(small_value(code, kF16));
  return h & 0x8000 ? -v : v;
}
inline uint16_t f16_of(float f) {
  if (std::isnan(f)) return 0x7fff;
  const uint32_t sign = as_bits(f) >> 16 & 0x8000;
  const double magnitude = std::fabs(static_cast<double>(f));
  return static_cast<uint16_t>(sign | (magnitude >= 65520 ? 0x7c00 : small_code(magnitude, kF16)));
}

// The format e4m3 has no infinities, and 0x7f is NaN.
inline float of_e4m3(uint32_t c) {
  if ((c & 0x7f) == 0x7f) return as_float(0x7fffffff);
  const float v = static_cast<float>(small_value(c & 0x7f, kE4m3));
  return c & 0x80 ? -v : v;
}
// Magnitudes beyond the largest number become the largest number (.satfinite).
inline uint8_t e4m3_of(float f) {
  if (std::isnan(f)) return 0x7f;
  const uint32_t sign = as_bits(f) >> 24 & 0x80;
  const double magnitude = std::fabs(static_cast<double>(f));
  const uint32_t code = magnitude >= 448 ? 0x7e : small_code(magnitude, kE4m3);
  return static_cast<uint8_t>(sign | code);
}

}  // namespace softgpu
