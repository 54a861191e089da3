// f32 converts to and from 16-bit and 8-bit floats, which lie in the low bits of a word.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace mkrt {

inline float bf16_to_f32(uint32_t bits) {
  return std::bit_cast<float>(bits << 16);
}

// Returns the exact value. A product rebases the exponent, which also makes subnormals right.
inline float f16_to_f32(uint32_t bits) {
  const float magnitude = std::bit_cast<float>((bits & 0x7fff) << 13) * 0x1p112f;
  const uint32_t special = (bits & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | special | (bits & 0x8000) << 16);
}

// Rounds to nearest even. NaN becomes 0x7fff, as on the GPU.
inline uint32_t f32_to_bf16(float x) {
  if (std::isnan(x)) return 0x7fff;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// Rounds to nearest even. NaN becomes 0x7fff, and values that round beyond the largest f16 become infinity.
inline uint32_t f32_to_f16(float x) {
  if (std::isnan(x)) return 0x7fff;
  const uint32_t bits = std::bit_cast<uint32_t>(x), sign = bits >> 16 & 0x8000;
  const float magnitude = std::fabs(x);
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude < 0x1p-14f)  // subnormal: adding 0.5 rounds at 2^-24
    return sign | (std::bit_cast<uint32_t>(magnitude + 0.5f) - std::bit_cast<uint32_t>(0.5f));
  const uint32_t rebased = (bits & 0x7fffffff) - (112u << 23);
  return sign | (rebased + 0xfff + (rebased >> 13 & 1)) >> 13;
}

// Returns the value of a code in E4M3 of the OCP 8-bit floating point specification. E4M3 has no infinity and
// one NaN of each sign.
inline float e4m3_to_f32(uint32_t code) {
  const int exponent = static_cast<int>(code >> 3 & 15), mantissa = static_cast<int>(code & 7);
  const float magnitude = exponent == 15 && mantissa == 7 ? NAN
                          : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                          : std::ldexp(static_cast<float>(mantissa + 8), exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

// Rounds to nearest even. Values beyond the largest E4M3 number become that number, and NaN becomes 0x7f.
inline uint32_t f32_to_e4m3(float x) {
  if (std::isnan(x)) return 0x7f;
  const uint32_t sign = std::signbit(x) ? 0x80 : 0;
  const float magnitude = std::fmin(std::fabs(x), 448.0f);
  // The spacing of E4M3 numbers around `magnitude` is 2^spacing: 2^-9 below 2^-5.
  const int spacing = std::max(std::ilogb(magnitude), -6) - 3;
  const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -spacing)));
  return sign | (static_cast<uint32_t>(spacing + 9) * 8 + steps);
}

}  // namespace mkrt
