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

// Elements of a word of a packed row lie together in a row of the checkpoint, too, unless they have 4 bits.
// So kTile words of kTile rows are turned in registers.
constexpr u32 kTile = 8;
typedef u32 u32x8 __attribute__((ext_vector_type(8)));
static_assert(kStripRows % kTile == 0 && sizeof(u32x8) == kTile * sizeof(u32));
template <class W>
constexpr bool kHasWords = word_cols(W::type) * W::row.bits == 32 && W::row.bits != 4;

// turn() makes element i of words[k] element k of words[i]: one bit of the numbers after the other.
MK_INLINE void turn(u32x8 (&words)[kTile]) {
  u32x8 a[kTile], b[kTile];
  MK_UNROLL
  for (u32 i = 0; i < kTile; i += 2) {
    a[i] = __builtin_shufflevector(words[i], words[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    a[i + 1] = __builtin_shufflevector(words[i], words[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  MK_UNROLL
  for (u32 i = 0; i < kTile; ++i) {
    if (i % 4 >= 2) continue;
    b[i] = __builtin_shufflevector(a[i], a[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    b[i + 2] = __builtin_shufflevector(a[i], a[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  MK_UNROLL
  for (u32 i = 0; i < kTile / 2; ++i) {
    words[i] = __builtin_shufflevector(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    words[i + 4] = __builtin_shufflevector(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

// in_order() puts the elements of words where code_shift() has them.
template <class W>
MK_INLINE u32x8 in_order(u32x8 words) {
  if constexpr (W::row.bits != 8 || paired(W::row)) return words;
  return (words & 0xff0000ffu) | (words << 8 & 0x00ff0000u) | (words >> 8 & 0x0000ff00u);
}

// in_pairs() puts the pairs of each four rows where kPairedCodes has them.
template <class W>
MK_INLINE u32x8 in_pairs(u32x8 words) {
  if constexpr (!paired(W::row)) return words;
  const u16x16 pairs = __builtin_bit_cast(u16x16, words);
  return __builtin_bit_cast(
      u32x8, __builtin_shufflevector(pairs, pairs, 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
}

// can_turn() tells whether rows [row, row + kTile) follow each other in a strip from a tile's first row on.
MK_INLINE bool can_turn(const MkPack& p, u64 row, u64 rows) {
  if (rows < kTile) return false;
  const u64 first = packed_row(p, row);
  return first % kTile == 0 && packed_row(p, row + kTile - 1) == first + kTile - 1 &&
         (p.sources == 1 || p.group % kTile == 0);
}

// pack_tiles() writes columns [col, end) of rows [row, row + kTile), which can_turn() accepted. Returns the
// first column that is left.
template <class W>
MK_INLINE u64 pack_tiles(const MkPack& p, const PackedShape& shape, u64 row, u64 col, u64 end) {
  constexpr u32 cols = kTile * word_cols(W::type), element_bytes = W::row.bits / 8;
  static_assert(!W::grouped || W::row.group_cols % cols == 0);
  const u64 to_row = packed_row(p, row);
  char* strip = (char*)p.to + to_row / kStripRows * shape.strip_bytes;
  const char* from = (const char*)p.from;
  for (; col + cols <= end; col += cols) {
    u32x8 words[kTile];
    MK_UNROLL
    for (u32 i = 0; i < kTile; ++i)
      words[i] = in_order<W>(load<u32x8>(from + ((row + i) * p.cols + col) * element_bytes));
    turn(words);
    char* to = strip + strip_offset(W::type, (u32)(to_row % kStripRows), col);
    MK_UNROLL
    for (u32 i = 0; i < kTile; ++i) store(to + i * kStripRows * sizeof(u32), in_pairs<W>(words[i]));
  }
  return col;
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
    for (u64 col = 0; col < p.cols; col += kBlockCols) {
      const u64 col_end = col + kBlockCols < p.cols ? col + kBlockCols : p.cols;
      for (u64 i = 0; i < rows; i += kTile) {
        const u64 left = rows - i < kTile ? rows - i : kTile;
        u64 at = col;
        if constexpr (kHasWords<W>)
          if (can_turn(p, row + i, left)) at = pack_tiles<W>(p, shape, row + i, col, col_end);
        pack_cols<W, typename Unsigned<W::row.bits>::Type>(p, shape, row + i, left, at, col_end);
      }
    }
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
  const auto bound = [&](u64 at) {
    return at == parts ? p.rows : p.rows * at / parts / kStripRows * kStripRows;
  };
  const u64 first = bound(part), end = bound(part + 1);
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
