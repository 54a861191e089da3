// Pack converts rows as a checkpoint has them to the processor's layout (layout.h). Each session does so
// once, when it is opened.
#include "codegen/device/pack.h"

#include "codegen/processor/layout.h"
#include "codegen/processor/worker.h"

namespace mk {

namespace {

constexpr u64 kBlockCols = 64;  // columns that are written together for all rows of a strip

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

// pack_words() writes the rows of codes of 4 bits, eight to a word of the checkpoint, the lowest bits first.
template <class W>
MK_INLINE void pack_words(const MkPack& p, const PackedShape& shape, u64 first, u64 end) {
  constexpr u32 codes = word_cols(W::type);
  const u64 words = p.cols / codes;
  for (u64 row = first; row < end; ++row) {
    const u64 to_row = packed_row(p, row);
    char* to = (char*)p.to + to_row / kStripRows * shape.strip_bytes;
    for (u64 i = 0; i < words; ++i) {
      const u32 from = ((const u32*)p.from)[row * words + i];
      u32 word = 0;
      MK_UNROLL
      for (u32 code = 0; code < codes; ++code) word |= (from >> 4 * code & 15u) << code_shift(4, code);
      *(u32*)(to + strip_offset(W::type, (u32)(to_row % kStripRows), i * codes)) = word;
    }
  }
}

// pack_groups() writes the scales and zero points of a format's groups.
template <class W>
MK_INLINE void pack_groups(const MkPack& p, const PackedShape& shape, u64 first, u64 end) {
  for (u64 row = first; row < end; ++row)
    for (u64 group = 0; group < groups_of<W>(p); ++group)
      put_group<W>(p, row, group, [&](u64 to_row, u64 of) {
        return to_row / kStripRows * shape.strip_bytes + group_end(W::row, of);
      });
}

template <class W>
MK_INLINE void pack_elements(const MkPack& p, const PackedShape& shape, u64 first, u64 end) {
  for (u64 row = first; row < end; row += kStripRows) {
    const u64 rows = end - row < kStripRows ? end - row : kStripRows;
    for (u64 col = 0; col < p.cols; col += kBlockCols)
      pack_cols<W, typename Unsigned<W::row.bits>::Type>(
          p, shape, row, rows, col, col + kBlockCols < p.cols ? col + kBlockCols : p.cols);
  }
}

// row_scale() is the scale of a row of the checkpoint. That of a row of E4M3 with a NaN is NaN, so that
// products need not look for one.
template <class W>
MK_INLINE f32 row_scale(const MkPack& p, u64 row) {
  bool nan = false;
  if constexpr (W::row.e4m3()) {
    const uint8_t* codes = (const uint8_t*)p.from + row * p.cols;
    for (u64 col = 0; col < p.cols; ++col) nan |= (codes[col] & 0x7f) == 0x7f;
  }
  return nan ? __builtin_nanf("") : ((const f32*)p.scales)[row];
}

template <class W>
MK_INLINE void pack(const MkPack& p, u32 part, u32 parts) {
  const PackedShape shape = packed_shape(p.matrix_rows, p.cols, W::type);
  const u64 first = p.rows * part / parts, end = p.rows * (part + 1) / parts;
  if constexpr (W::row.bits == 4)
    pack_words<W>(p, shape, first, end);
  else
    pack_elements<W>(p, shape, first, end);
  if constexpr (W::grouped) pack_groups<W>(p, shape, first, end);
  if constexpr (W::scaled)
    for (u64 row = first; row < end; ++row) {
      const u64 to_row = packed_row(p, row);
      char* strip = (char*)p.to + to_row / kStripRows * shape.strip_bytes;
      ((f32*)(strip + scales_offset(shape.strip_bytes)))[to_row % kStripRows] = row_scale<W>(p, row);
    }
}

}  // namespace

// Parts may be packed at the same time.
#define MK_PACK(name, type)                                                      \
  MK_BODY void mkd_pack_##name(AS1 const MkPack* pack_at, u32 part, u32 parts) { \
    pack<WeightsOf<WeightType::type>>(*(const MkPack*)pack_at, part, parts);     \
  }
MKRT_EACH_WEIGHT_TYPE(MK_PACK)

}  // namespace mk
