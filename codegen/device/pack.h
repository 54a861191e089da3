// Packing for GPUs and packing for processors share this code.
#pragma once

#include "codegen/device/weights.h"

namespace mk {

// Unsigned<n>::Type is an unsigned integer of n bits.
template <u32 Bits>
struct Unsigned {
  using Type = u32;
};
template <>
struct Unsigned<8> {
  using Type = uint8_t;
};
template <>
struct Unsigned<16> {
  using Type = uint16_t;
};

// packed_row() is the row of the packed matrix that takes row `row` of these rows.
MK_INLINE u64 packed_row(const MkPack& p, u64 row) {
  const u64 r = p.first + row;
  return p.sources == 1 ? r : (r / p.group * p.sources + p.source) * p.group + r % p.group;
}

// groups_of() is how many groups the columns of these rows have.
template <class W>
MK_INLINE u64 groups_of(const MkPack& p) {
  return (p.cols + W::row.group_cols - 1) / W::row.group_cols;
}

// put_scale() writes a scale of a group.
template <ScaleType Type>
MK_INLINE void put_scale(AS1 char* to, f32 scale) {
  if constexpr (Type == ScaleType::kF32) *(AS1 f32*)to = scale;
  if constexpr (Type == ScaleType::kF16) F16::store(to, scale);
  if constexpr (Type == ScaleType::kE4m3) E4m3::store(to, scale);
  if constexpr (Type == ScaleType::kE8m0) *to = (char)(__builtin_bit_cast(u32, scale) >> 23);
}

// put_group() writes the scale and zero point of a group of row `row` of these rows. `offset`(row, group) is
// where what the group has behind its columns begins. The first of the rows that share a scale gives it.
template <class W, class Offset>
MK_INLINE void put_group(const MkPack& p, u64 row, u64 group, const Offset& offset) {
  const u64 to_row = packed_row(p, row), from = row * groups_of<W>(p) + group;
  const u32 strip_row = (u32)(to_row % kStripRows);
  AS1 char* to = (AS1 char*)p.to + offset(to_row, group);
  if constexpr (W::row.zeros) to[zero_in_group(W::row, strip_row)] = ((AS1 const char*)p.group_zeros)[from];
  if (strip_row % W::row.group_rows != 0) return;
  put_scale<W::row.group_scale>(to + scale_in_group(W::row, strip_row),
                                ((AS1 const f32*)p.group_scales)[from]);
}

}  // namespace mk
