// The packed weight layout of the processor. Strips, their order and their bytes are those of
// runtime/abi/packing.h, so that the memory plan and the schedule are the same for all targets. Within a
// strip, columns follow each other, and each column has its 16 rows together. bf16 weights have two columns
// of a row together, as one word. So a vector has one value, or one word, of each row.
//
// K slices are eighths of a strip's padded columns, and therefore contiguous. The rows' scales, where a
// format has some, lie once at the strip's end.
#pragma once

#include "codegen/device/weights.h"

namespace mk {

// cols_together() is how many columns of a row lie together.
MK_INLINE constexpr u32 cols_together(WeightType type) {
  return type == WeightType::kBf16 ? 2 : 1;
}

// strip_offset() is the byte offset of an element in its strip.
MK_INLINE constexpr u64 strip_offset(WeightType type, u32 row, u64 col) {
  const u32 together = cols_together(type), bytes = weight_format(type).bits / 8;
  return ((col / together * kStripRows + row) * together + col % together) * bytes;
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
