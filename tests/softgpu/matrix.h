// Matrix instructions share fragments (PTX ISA, "Matrix Fragments for mma.m16n8k16").
#pragma once

#include "tests/softgpu/machine.h"
#include "tests/softgpu/number.h"

namespace softgpu {

template <bool Bf16>
float half_value(uint32_t bits) {
  if constexpr (Bf16) return of_bf16(bits & 0xffff);
  static const std::vector<float> values = [] {
    std::vector<float> all(1 << 16);
    for (uint32_t h = 0; h < all.size(); ++h) all[h] = of_f16(h);
    return all;
  }();
  return values[bits & 0xffff];
}

// Takes A, 16 rows of 16 columns, from four registers of each lane. Lane 4g + t holds rows g and g + 8 at
// columns 2t, 2t + 1, 2t + 8 and 2t + 9.
template <bool Bf16>
void take_a(const uint32_t* const* words, float (*a)[16]) {
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t n = 0; n < 4; ++n) {
      float* at = &a[l / 4 + 8 * (n % 2)][l % 4 * 2 + 8 * (n / 2)];
      at[0] = half_value<Bf16>(words[n][l]);
      at[1] = half_value<Bf16>(words[n][l] >> 16);
    }
}

// Takes the part of a register of each lane that holds four elements of E4M3 of a row (PTX ISA, "Matrix
// Fragments for mma.m16n8k32"). Lane 4g + t has row g, from element low + 4t on.
inline void take_codes(const uint32_t* words, float (*rows)[32], uint32_t low) {
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t n = 0; n < 4; ++n) rows[l / 4][low + l % 4 * 4 + n] = of_e4m3(words[l] >> 8 * n & 0xff);
}

// Returns c + a · b over `Count` elements. PTX leaves the order of the sum open. `exactly` adds in f64 and
// rounds once; otherwise the elements are added one by one in f32.
template <uint32_t Count = 16>
float sum_up(bool exactly, float c, const float* a, const float* b) {
  if (exactly) {
    double even = 0, odd = 0;
    for (uint32_t k = 0; k < Count; k += 2) {
      even += static_cast<double>(a[k]) * static_cast<double>(b[k]);
      odd += static_cast<double>(a[k + 1]) * static_cast<double>(b[k + 1]);
    }
    return static_cast<float>(static_cast<double>(c) + (even + odd));
  }
  for (uint32_t k = 0; k < Count; ++k) c += a[k] * b[k];
  return c;
}

}  // namespace softgpu
