// Packed weights of any format are written element by element, at the places that runtime/abi/packing.h
// defines.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/abi/packing.h"
#include "runtime/base/half.h"

namespace mk {

using mkrt::e4m3_to_f32, mkrt::f16_to_f32, mkrt::f32_to_e4m3, mkrt::f32_to_f16;

// Returns the formats of codes. All others store a number as it is.
inline std::vector<mkrt::WeightType> coded_types() {
  std::vector<mkrt::WeightType> types;
  for (const mkrt::WeightType type : mkrt::kWeightTypes)
    if (mkrt::weight_format(type).coded()) types.push_back(type);
  return types;
}

// Returns the number that a code stands for, without scales. Sources: the OCP 8-bit floating point
// specification and Microscaling Formats 1.0.
inline float number_of(const mkrt::WeightFormat& format, uint32_t code, uint32_t zero) {
  constexpr float kE2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  if (format.code == mkrt::CodeType::kInteger) return static_cast<float>(code) - static_cast<float>(zero);
  if (format.code == mkrt::CodeType::kE2m1) return code < 8 ? kE2m1[code] : -kE2m1[code - 8];
  return e4m3_to_f32(code);
}

// Returns the zero point of a row and group: any that the format has, and else the middle of the codes.
inline uint32_t zero_of(const mkrt::WeightFormat& format, uint64_t row, uint64_t group) {
  if (!format.zeros) return 1u << (format.bits - 1);
  const uint64_t zeros = format.bits == 4 ? 17 : 256;
  return static_cast<uint32_t>((row * 7 + group * 3 + 5) % zeros);
}

// Returns the code nearest to a number, which has been divided by the scales.
inline uint32_t nearest_code(const mkrt::WeightFormat& format, float number, uint32_t zero) {
  if (format.code == mkrt::CodeType::kFloat) return f32_to_e4m3(number);
  if (format.code == mkrt::CodeType::kInteger)
    return static_cast<uint32_t>(
        std::clamp(std::round(number) + static_cast<float>(zero), 0.0f, std::ldexp(1.0f, format.bits) - 1));
  uint32_t best = 0;
  for (uint32_t code = 1; code < 1u << format.bits; ++code)
    if (std::abs(number_of(format, code, zero) - number) < std::abs(number_of(format, best, zero) - number))
      best = code;
  return best;
}

// Stores a scale in its type and returns what is stored.
inline float put_scale_of(mkrt::ScaleType type, float scale, char* to) {
  if (type == mkrt::ScaleType::kF32) return std::memcpy(to, &scale, sizeof(scale)), scale;
  const auto half = static_cast<uint16_t>(f32_to_f16(scale));
  if (type == mkrt::ScaleType::kF16) return std::memcpy(to, &half, sizeof(half)), f16_to_f32(half);
  const auto code = static_cast<uint8_t>(f32_to_e4m3(scale));
  if (type == mkrt::ScaleType::kE4m3) return *to = static_cast<char>(code), e4m3_to_f32(code);
  const int exponent = std::ilogb(scale);
  *to = static_cast<char>(exponent + 127);
  return std::ldexp(1.0f, exponent);
}

// Stores the scale of a row behind each of its K slices, where the format has such scales.
inline void put_row_scale(const mkrt::PackedShape& s, char* packed, uint64_t row, float scale) {
  for (uint64_t k_slice = 0; k_slice < mkrt::kKSlices && s.format.scale_bytes != 0; ++k_slice)
    std::memcpy(packed + scale_offset(s, row, k_slice), &scale, sizeof(scale));
}

// Returns the columns that share a scale. Wgmma128 needs one for all columns of a part.
inline uint64_t group_cols_of(const mkrt::PackedShape& s) {
  const bool wide = by_warpgroups(s.format) && s.cols % wgmma_cols(s.format) == 0;
  return wide ? mkrt::kTileCols / mkrt::kKSlices : s.format.group_cols;
}

// Stores the scales and the zero point of an element. Returns the product of the scales. Scales differ
// between rows and groups of columns.
inline float put_scales(const mkrt::PackedShape& s, char* packed, uint64_t row, uint64_t col, uint64_t salt) {
  const mkrt::WeightFormat& format = s.format;
  const auto some = [&](uint64_t i) { return static_cast<float>(1 + (salt + i) % 5); };
  float of_row = 1;
  if (format.scale_bytes != 0)
    of_row = format.grouped() ? std::ldexp(1.0f, -static_cast<int>(row % 3)) : 0.0011f * some(row);
  put_row_scale(s, packed, row, of_row);
  if (!format.grouped()) return of_row;
  const uint64_t group = col / group_cols_of(s);
  if (format.zeros) packed[group_zero_offset(s, row, col)] = static_cast<char>(zero_of(format, row, group));
  const float unit = format.code == mkrt::CodeType::kFloat || format.bits == 8 ? 0.0011f : 0.021f;
  return of_row * put_scale_of(format.group_scale, unit * some(row / format.group_rows + group),
                               packed + group_scale_offset(s, row, col));
}

// Stores the code nearest to a number, with its scales. Returns what the code stands for. The memory is 0
// before.
inline double put_coded(const mkrt::PackedShape& s, char* packed, uint64_t row, uint64_t col, float v,
                        uint64_t salt = 0) {
  const float scale = put_scales(s, packed, row, col, salt);
  const uint32_t zero = s.format.grouped() ? zero_of(s.format, row, col / s.format.group_cols) : 0;
  const uint32_t code = nearest_code(s.format, v / scale, zero);
  const mkrt::Place place = packed_place(s, row, col);
  packed[place.byte] = static_cast<char>(packed[place.byte] | code << place.bit);
  return double{number_of(s.format, code, zero)} * scale;
}

}  // namespace mk
