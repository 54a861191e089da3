// Activation rows as products read them, and the scratch memory of a product.
#pragma once

#include "codegen/device/bodies.h"

namespace mk {

// mkb_product_norm keeps one partial sum for each token and warp.
static_assert(kPartials >= kMaxTokens * kConsumerWarps);

static_assert(kMaxTokens <= 256);  // `gathered` stores a row number in one byte

// laundered() returns its arguments through opaque assembly. LLVM would otherwise hoist values derived from
// them out of the loop over a segment's blocks. Hoisted values would occupy registers beside the
// accumulators.
MK_INLINE ProductArgs laundered(ProductArgs a) {
  asm volatile("" : "+r"(a.cols), "+r"(a.tail_cols), "+r"(a.tokens));
  return a;
}

MK_INLINE u32 split_k(const ProductArgs& a) {
  return a.splits ? a.epilogue->split_k : 1;
}
// split_shift() is the logarithm of split_k(), which is a power of 2. Shifts take the place of divisions,
// each of which would take about 20 instructions before a product's first load.
MK_INLINE u32 split_shift(const ProductArgs& a) {
  return (u32)__builtin_ctz(split_k(a));
}
// multiplies_codes() tells whether the product multiplies codes in place of x.
MK_INLINE bool multiplies_codes(const ProductArgs& a) {
  return a.has_codes && a.tokens >= a.wgmma_from;
}

// may_have() tells whether a product of the code has a part of the epilogue. Other parts cost no code.
MK_INLINE bool may_have(const ProductArgs& a, EpiloguePart part) {
  return (a.left_out & part) == 0;
}

// A task of a split product multiplies one strip over some of the K slices. The sums wait in memory for
// mkb_split_k_reduce().
MK_INLINE bool is_split(const ProductArgs& a) {
  return split_k(a) != 1;
}

// StripBlock is a run of consecutive strips of a product, or of one of its split_k parts. The run begins at
// task `task`. Part and strip are computed on use, because registers are reserved for accumulators.
struct StripBlock {
  u32 task, strips;
  MK_INLINE u32 part(const ProductArgs& a) const { return is_split(a) ? task / a.epilogue->all_strips : 0; }
  MK_INLINE u32 strip(const ProductArgs& a) const {
    return is_split(a) ? task % a.epilogue->all_strips : task;
  }
};

struct ProductScratch {
  AS3 f32* partial;       // [warp][strip of the block][token of the group][row]
  AS3 f32* value;         // [strip of the block][token of the group][row]
  AS3 f32* scale;         // [row of x]: 1 / its root mean square; kept for a segment
  AS3 uint8_t* gathered;  // [token]: its row of x if rows are gathered; kept for a segment
  MK_INLINE explicit ProductScratch(const Worker& w)
      : partial((AS3 f32*)(w.scratch() + kEpilogueBytes)),
        value(partial + kPartials),
        scale(value + kBlockSums),
        gathered((AS3 uint8_t*)(scale + kMaxTokens)) {}
};

// sum_place() swizzles the index [token][row] of a sum in shared memory. Groups of 8 rows change places by
// XOR. The lanes of a matrix instruction then store their sums to all banks.
MK_INLINE u32 sum_place(u32 entry) {
  return entry ^ entry / 32 % 4 * 8;
}

MK_INLINE f32 sum_over_warps(AS3 const f32* partial, u32 entry) {
  f32 sum = 0;
  MK_UNROLL
  for (u32 i = 0; i < kConsumerWarps; ++i) sum += partial[i * kBlockSums + sum_place(entry)];
  return sum;
}

constexpr u32 kNoRow = ~0u;

// XRows reads rows of x as a product needs them: normalised, and 0 past the last column.
struct XRows {
  const ProductArgs& a;
  AS3 const f32* scale;
  MK_INLINE bool padded(u32 col) const { return a.padding != kNoPadding && col >= a.cols; }
  MK_INLINE bool has_whole_chunks() const { return a.padding <= kPaddingOfChunks; }
  MK_INLINE f32 at(u32 row, u32 col) const {
    if (padded(col)) return 0;
    const f32 v = a.x[row * a.cols + col];
    return a.normed ? v * scale[row] * a.norm[col] : v;
  }
  MK_INLINE f32x2 pair_at(u32 row, u32 col) const {
    if (a.padding == kPaddingOfOdd) return {at(row, col), at(row, col + 1)};
    if (padded(col)) return {0, 0};
    const f32x2 v = *(AS1 const f32x2*)(a.x + row * a.cols + col);
    return a.normed ? v * scale[row] * *(AS1 const f32x2*)(a.norm + col) : v;
  }
  // `ahead` is a column offset. A constant `ahead` becomes part of the load's address.
  template <class W>
  MK_INLINE u32 packed_at(u32 row, u32 col, u32 ahead) const {
    if (a.x_bf16) {
      AS1 const uint16_t* from = (AS1 const uint16_t*)a.x + (row * a.cols + col);
      return padded(col + ahead) ? 0 : *(AS1 const u32*)(from + ahead);
    }
    const f32x2 v = pair_at(row, col + ahead);
    return W::pack(v[0], v[1]);
  }
  template <class W>
  MK_INLINE u32x2 four_at(u32 row, u32 col, u32 ahead) const {
    if (!has_whole_chunks()) return {packed_at<W>(row, col, ahead), packed_at<W>(row, col, ahead + 2)};
    if (padded(col + ahead)) return 0;
    if (a.x_bf16) return *(AS1 const u32x2*)((AS1 const uint16_t*)a.x + (row * a.cols + col) + ahead);
    f32x4 v = *(AS1 const f32x4*)(a.x + (row * a.cols + col) + ahead);
    if (a.normed) v = v * scale[row] * *(AS1 const f32x4*)(a.norm + col + ahead);
    return {W::pack(v[0], v[1]), W::pack(v[2], v[3])};
  }
  // pair() reads an even column and the next one, by one load if rows have even length. A missing token reads
  // row 0, which affects no other token's sums. A selection of zeros would wait for prefetched loads.
  MK_INLINE f32x2 pair(u32 row, u32 col) const { return pair_at(row == kNoRow ? 0 : row, col); }
  // four() reads 4 columns from a multiple of 4 on, as values of type W. Rows of bf16 lack the norm's scale,
  // which missing_scale() gives. One load suffices if rows are whole chunks.
  template <class W>
  MK_INLINE u32x2 four(u32 row, u32 col, u32 ahead) const {
    return four_at<W>(row == kNoRow ? 0 : row, col, ahead);
  }
  // chunk() reads 16 bytes of columns of type W, whose first is a multiple of their number. A missing token
  // reads zeros. E4m3 reads codes.
  template <class W>
  MK_INLINE u32x4 chunk(u32 row, u32 col) const {
    if (row == kNoRow) return 0;
    if constexpr (W::bytes == 1) {
      return padded(col) ? 0 : *(AS1 const u32x4*)(a.codes + (row * a.cols + col));
    } else {
      if (a.x_bf16 && has_whole_chunks())
        return padded(col) ? 0 : *(AS1 const u32x4*)((AS1 const uint16_t*)a.x + row * a.cols + col);
      return {packed_at<W>(row, col, 0), packed_at<W>(row, col, 2), packed_at<W>(row, col, 4),
              packed_at<W>(row, col, 6)};
    }
  }
  // missing_scale() is the factor that a row's sums still lack. Rows of bf16 that have sum_squares lack 1 /
  // root mean square. Codes lack their scale.
  MK_INLINE f32 missing_scale(u32 row) const {
    return a.x_bf16 && (a.epilogue->sumsq_partials != 0 || multiplies_codes(a)) ? scale[row] : 1;
  }
};

}  // namespace mk
