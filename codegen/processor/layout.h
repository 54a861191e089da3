// The processor has a packed weight layout of its own. Strips, their order and their bytes are those of
// runtime/abi/packing.h, so that the memory plan and the schedule are the same for all targets. Within a
// strip, columns follow each other, and each column has its 16 rows together. bf16 weights have two columns
// of a row together, as one word, and codes of 4 bits have eight. So a vector has one value, or one word, of
// each row. Codes of 8 bits lie in blocks of 4 rows and 4 columns: the first two columns of each row, then
// the other two. The scales and zero points of a group of columns lie behind the group.
//
// K slices are eighths of a strip's padded columns, and therefore contiguous. The rows' scales, where a
// format has some, lie once at the strip's end.
#pragma once

#include "codegen/device/weights.h"

namespace mk {

constexpr u32 kWordCodes = 8;  // codes of 4 bits in a word

// cols_together() is how many columns of a row lie together.
MK_INLINE constexpr u32 cols_together(WeightType type) {
  return type == WeightType::kBf16 ? 2 : 1;
}

// group_begin() is the byte offset of a group of columns in its strip.
MK_INLINE constexpr u64 group_begin(const WeightFormat& format, u64 group) {
  return group * (kStripRows * format.group_cols * format.bits / 8 + format.group_bytes());
}
// group_end() is the byte offset in its strip of what a group has behind its columns.
MK_INLINE constexpr u64 group_end(const WeightFormat& format, u64 group) {
  return group_begin(format, group + 1) - format.group_bytes();
}

// strip_offset() is the byte offset in its strip of an element, or of a word of eight codes of 4 bits.
MK_INLINE constexpr u64 strip_offset(WeightType type, u32 row, u64 col) {
  const WeightFormat format = weight_format(type);
  const u64 group = format.grouped() ? col / format.group_cols : 0;
  const u64 in_group = col - group * format.group_cols, begin = group_begin(format, group);
  if (format.bits == 4) return begin + (in_group / kWordCodes * kStripRows + row) * sizeof(u32);
  if (format.bits == 8)
    return begin + in_group / 4 * 4 * kStripRows + row / 4 * 16 + in_group % 4 / 2 * 8 + row % 4 * 2 +
           in_group % 2;
  const u32 together = cols_together(type), bytes = format.bits / 8;
  return begin + ((in_group / together * kStripRows + row) * together + in_group % together) * bytes;
}
// code_shift() is the lowest bit of column `col` in its word of eight codes. The word's halves have the two
// columns of a pair at the same bits.
MK_INLINE constexpr u32 code_shift(u32 col) {
  return col % 2 * 16 + col / 2 * 4;
}

// element_offset() is the byte offset of an element in its packed weight.
MK_INLINE constexpr u64 element_offset(const PackedShape& s, WeightType type, u64 row, u64 col) {
  return row / kStripRows * s.strip_bytes + strip_offset(type, (u32)(row % kStripRows), col);
}

// scales_offset() is the byte offset of a strip's 16 scales in the strip. A GPU has those of the last K slice
// there.
MK_INLINE constexpr u64 scales_offset(u64 strip_bytes) {
  return strip_bytes - kStripRows * sizeof(f32);
}

}  // namespace mk
