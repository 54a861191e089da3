// Rounding to the 16-bit types, to nearest even.
#pragma once

#include <bit>
#include <cstdint>

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

}  // namespace reference
