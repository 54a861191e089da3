// Pack converts rows as a checkpoint has them to the processor's layout (layout.h). Each session does so
// once, when it is opened.
#include "codegen/processor/layout.h"
#include "codegen/processor/worker.h"

namespace mk {

namespace {

constexpr u64 kBlockCols = 64;  // columns that are written together for all rows of a strip

// packed_row() is the row of the packed matrix that takes row `row` of these rows.
MK_INLINE u64 packed_row(const MkPack& p, u64 row) {
  const u64 r = p.first + row;
  return p.sources == 1 ? r : (r / p.group * p.sources + p.source) * p.group + r % p.group;
}

// pack_cols() writes columns [col, end) of rows [row, row + rows).
template <class W, class Element>
MK_INLINE void pack_cols(const MkPack& p, const PackedShape& shape, u64 row, u64 rows, u64 col, u64 end) {
  for (u64 i = row; i < row + rows; ++i) {
    const Element* from = (const Element*)p.from + i * p.cols;
    const u64 to_row = packed_row(p, i);
    Element* to = (Element*)(p.to + to_row / kStripRows * shape.strip_bytes);
    for (u64 c = col; c < end; ++c)
      to[strip_offset(W::type, (u32)(to_row % kStripRows), c) / sizeof(Element)] = from[c];
  }
}

template <class W, class Element>
MK_INLINE void pack(const MkPack& p, u32 part, u32 parts) {
  const PackedShape shape = packed_shape(p.matrix_rows, p.cols, W::type);
  const u64 first = p.rows * part / parts, end = p.rows * (part + 1) / parts;
  for (u64 row = first; row < end; row += kStripRows) {
    const u64 rows = end - row < kStripRows ? end - row : kStripRows;
    for (u64 col = 0; col < p.cols; col += kBlockCols)
      pack_cols<W, Element>(p, shape, row, rows, col, col + kBlockCols < p.cols ? col + kBlockCols : p.cols);
  }
  if constexpr (W::scaled)
    for (u64 row = first; row < end; ++row) {
      const u64 to_row = packed_row(p, row);
      char* strip = (char*)p.to + to_row / kStripRows * shape.strip_bytes;
      ((f32*)(strip + scales_offset(shape.strip_bytes)))[to_row % kStripRows] = ((const f32*)p.scales)[row];
    }
}

}  // namespace

// mkd_pack() packs a part of the rows. Parts may be packed at the same time.
MK_BODY void mkd_pack(AS1 const MkPack* pack_at, u32 part, u32 parts) {
  const MkPack& p = *(const MkPack*)pack_at;
  switch ((WeightType)p.type) {
    case WeightType::kF32:
      return pack<WeightsF32, u32>(p, part, parts);
    case WeightType::kF16:
      return pack<WeightsF16, uint16_t>(p, part, parts);
    case WeightType::kBf16:
      return pack<WeightsBf16, uint16_t>(p, part, parts);
    case WeightType::kE4m3:
      return pack<WeightsE4m3, uint8_t>(p, part, parts);
  }
}

}  // namespace mk
