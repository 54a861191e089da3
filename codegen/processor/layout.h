// The processor has a packed weight layout of its own. Strips, their order and their bytes are those of
// runtime/abi/packing.h, so that the memory plan and the schedule are the same for all targets. Within a
// strip, columns follow each other, and each column has its 16 rows together. Formats of 16 bits and less
// have a word of each row, with the row's next columns. f16 has columns alone. So a vector has one value, or
// one word, of each row. The scales and zero points of a group of columns lie behind the group.
//
// K slices are eighths of a strip's padded columns, and therefore contiguous. The rows' scales, where a
// format has some, lie once at the strip's end.
#pragma once

#include "codegen/device/weights.h"

namespace mk {

// word_cols() is how many columns of a row share a word. Formats without words have 1.
MK_INLINE constexpr u32 word_cols(WeightType type) {
  return type == WeightType::kF16 ? 1 : 32 / weight_format(type).bits;
}
// code_shift() is the lowest bit of column `col` in its word of codes of `bits` bits. The word's halves have
// the two columns of a pair at the same bits.
MK_INLINE constexpr u32 code_shift(u32 bits, u32 col) {
  return col % 2 * 16 + col / 2 * bits;
}

// kPairedCodes says that codes of E4M3 have the order in which processors with BF16 make pairs of them. Four
// columns of four rows lie together: the rows' first two columns, and then their last two.
#ifdef __AVX512BF16__
constexpr bool kPairedCodes = true;
#else
constexpr bool kPairedCodes = false;
#endif
MK_INLINE constexpr bool paired(const WeightFormat& format, bool paired_codes = kPairedCodes) {
  return paired_codes && format.e4m3();
}

// group_begin() is the byte offset of a group of columns in its strip.
MK_INLINE constexpr u64 group_begin(const WeightFormat& format, u64 group) {
  return group * (kStripRows * format.group_cols * format.bits / 8 + format.group_bytes());
}
// group_end() is the byte offset in its strip of what a group has behind its columns.
MK_INLINE constexpr u64 group_end(const WeightFormat& format, u64 group) {
  return group_begin(format, group + 1) - format.group_bytes();
}

// strip_offset() is the byte offset in its strip of an element. Elements of 4 bits have that of their byte.
MK_INLINE constexpr u64 strip_offset(WeightType type, u32 row, u64 col, bool paired_codes = kPairedCodes) {
  const WeightFormat format = weight_format(type);
  const u64 group = format.grouped() ? col / format.group_cols : 0;
  const u32 together = word_cols(type), bits = format.bits, in_word = (u32)(col % together);
  const u64 step = (col - group * format.group_cols) / together;
  const u64 begin = group_begin(format, group) + step * kStripRows * together * bits / 8;
  if (paired(format, paired_codes)) return begin + row / 4 * 16 + in_word / 2 * 8 + row % 4 * 2 + in_word % 2;
  return begin + row * together * bits / 8 + code_shift(bits, in_word) / 8;
}

// element_offset() is the byte offset of an element in its packed weight.
MK_INLINE constexpr u64 element_offset(const PackedShape& s, WeightType type, u64 row, u64 col,
                                       bool paired_codes = kPairedCodes) {
  return row / kStripRows * s.strip_bytes + strip_offset(type, (u32)(row % kStripRows), col, paired_codes);
}

// scales_offset() is the byte offset of a strip's 16 scales in the strip. A GPU has those of the last K slice
// there.
MK_INLINE constexpr u64 scales_offset(u64 strip_bytes) {
  return strip_bytes - kStripRows * sizeof(f32);
}

}  // namespace mk
