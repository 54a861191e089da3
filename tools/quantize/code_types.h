// Codes of few bits stand for these numbers, before any scale.
//
// Each type has kBits, the bits of a code, and kMax, the greatest number that a code of each sign has.
// round() gives the nearest number, ties to even, and the outermost number beyond all. code() gives the code
// of a number that round() gave. Both are free of branches, so that loops over them become vector
// instructions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace mkc::quantize {

// Int4 is an integer from -8 to 7, whose code is 8 more.
struct Int4 {
  static constexpr uint32_t kBits = 4;
  static constexpr float kMax = 7;
  static float round(float x) {
    constexpr float kWholes = 0x1.8p23f;  // a float of this size has no digits behind the point
    return std::min(std::max(x, -8.0f), 7.0f) + kWholes - kWholes;
  }
  static uint8_t code(float x) { return static_cast<uint8_t>(static_cast<int>(x) + 8); }
};

// FloatCode is a float with a sign, `mantissa` bits, and subnormals below 2^min_exponent.
template <int bits, int mantissa, int min_exponent, int max>
struct FloatCode {
  static constexpr uint32_t kBits = bits;
  static constexpr float kMax = max;
  static float round(float x) {
    x = std::min(std::max(x, -kMax), kMax);
    // A float of size 1.5 * 2^(exponent + 23 - mantissa) has no digits below the number's last one.
    const uint32_t exponent = std::max(std::bit_cast<uint32_t>(x) & 0x7f800000u, kMinExponent);
    const float digits = 1.5f * std::bit_cast<float>(exponent + ((23u - mantissa) << 23));
    return x + digits - digits;
  }
  static uint8_t code(float x) {
    const uint32_t word = std::bit_cast<uint32_t>(x), magnitude = word & 0x7fffffffu;
    const auto subnormal = static_cast<uint32_t>(std::bit_cast<float>(magnitude) * kSubnormals);
    const uint32_t normal = (magnitude >> (23 - mantissa)) - (((kMinExponent >> 23) - 1) << mantissa);
    return static_cast<uint8_t>((magnitude < kMinExponent ? subnormal : normal) | word >> 31 << (bits - 1));
  }

 private:
  static constexpr uint32_t kMinExponent = static_cast<uint32_t>(127 + min_exponent) << 23;
  static constexpr float kSubnormals =
      std::bit_cast<float>(static_cast<uint32_t>(127 + mantissa - min_exponent) << 23);
};

using E4m3 = FloatCode<8, 3, -6, 448>;  // OCP 8-bit Floating Point Specification 1.0
using E2m1 = FloatCode<4, 1, 0, 6>;     // OCP Microscaling Formats 1.0

}  // namespace mkc::quantize
