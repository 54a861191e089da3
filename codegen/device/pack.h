// What packing for GPUs and for processors has in common.
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

// put_group_scale() writes the scale of a group of row `row` of these rows. `offset`(row, group) is its place
// in the packed matrix. The first of the rows that share a scale gives it.
template <class W, class Offset>
MK_INLINE void put_group_scale(const MkPack& p, u64 row, u64 group, const Offset& offset) {
  const u64 to_row = packed_row(p, row);
  if (to_row % W::row.group_rows != 0) return;
  const f32 scale = ((AS1 const f32*)p.group_scales)[row * groups_of<W>(p) + group];
  AS1 char* to = (AS1 char*)p.to + offset(to_row, group);
  if constexpr (one_scale_bytes(W::row) == F16::bytes)
    F16::store(to, scale);
  else
    *(AS1 f32*)to = scale;
}

}  // namespace mk
