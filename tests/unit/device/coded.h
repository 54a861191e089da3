// Packed weights of any format, element by element, by the places that runtime/abi/packing.h defines.
#pragma once

#include <cmath>
#include <cstring>

#include "runtime/abi/packing.h"
#include "runtime/base/half.h"

namespace mk {

using mkrt::e4m3_to_f32, mkrt::f16_to_f32, mkrt::f32_to_e4m3, mkrt::f32_to_f16;

// The formats of codes. All others store a number as it is.
constexpr mkrt::WeightType kCoded[] = {mkrt::WeightType::kE4m3, mkrt::WeightType::kE4m3Block,
                                       mkrt::WeightType::kInt4, mkrt::WeightType::kInt4Group32};

// Stores the scales of an element and returns their product. Scales differ between rows and groups of
// columns. They are no powers of 2, but for those of rows where groups have scales, too.
inline float put_scales(const mkrt::PackedShape& s, char* packed, uint64_t row, uint64_t col, uint64_t salt) {
  const mkrt::WeightFormat& format = s.format;
  const auto some = [&](uint64_t i) { return static_cast<float>(1 + (salt + i) % 5); };
  float of_row = 1, of_group = 1;
  if (format.scale_bytes != 0)
    of_row = format.grouped() ? std::ldexp(1.0f, -static_cast<int>(row % 3)) : 0.0011f * some(row);
  for (uint64_t k_slice = 0; k_slice < mkrt::kKSlices && format.scale_bytes != 0; ++k_slice)
    std::memcpy(packed + scale_offset(s, row, k_slice), &of_row, sizeof(of_row));
  if (!format.grouped()) return of_row;
  of_group = (format.bits == 4 ? 0.021f : 0.0011f) * some(row / format.group_rows + col / format.group_cols);
  char* to = packed + group_scale_offset(s, row, col);
  const auto half = static_cast<uint16_t>(f32_to_f16(of_group));
  if (format.bits != 4) return std::memcpy(to, &of_group, sizeof(of_group)), of_group;
  std::memcpy(to, &half, sizeof(half));
  return of_row * f16_to_f32(half);
}

// Stores the code nearest to a number, with its scales. Returns what the code stands for. The memory is 0
// before.
inline double put_coded(const mkrt::PackedShape& s, char* packed, uint64_t row, uint64_t col, float v,
                        uint64_t salt = 0) {
  const float scale = put_scales(s, packed, row, col, salt);
  const bool int4 = s.format.bits == 4;
  const auto nearest = [&] { return std::clamp(std::nearbyint(v / scale), -8.0f, 7.0f); };
  const uint32_t code = int4 ? static_cast<uint32_t>(nearest() + 8) : f32_to_e4m3(v / scale);
  const mkrt::Place place = packed_place(s, row, col);
  packed[place.byte] = static_cast<char>(packed[place.byte] | code << place.bit);
  return (int4 ? double{nearest()} : double{e4m3_to_f32(code)}) * scale;
}

}  // namespace mk
