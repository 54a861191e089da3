// Rows of activations as products take them, and a product's scratch memory.
#pragma once

#include "codegen/device/bodies.h"

namespace mk {

static_assert(kPartials >= kMaxTokens * kConsumerWarps);  // as mkb_product_norm uses them

static_assert(kMaxTokens <= 256);  // the number of a row is a byte

// The same arguments, of which nothing is computed before: else it would be hoisted out of the loop over a
// segment's blocks, and stay in registers beside their sums.
MK_INLINE ProductArgs laundered(ProductArgs a) {
  asm volatile("" : "+r"(a.cols), "+r"(a.tail_cols), "+r"(a.tokens));
  return a;
}

MK_INLINE u32 split_k(const ProductArgs& a) {
  return a.splits ? a.epilogue->split_k : 1;
}
// Then tasks are strips of a part, and leave sums for others to finish.
MK_INLINE bool is_split(const ProductArgs& a) {
  return split_k(a) != 1;
}

// Strips that follow each other, of a product or of one part of it, from a task on. What follows from the
// task is computed where it is needed: registers are for sums.
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
  AS3 f32* scale;         // of a segment, [row of x]: 1 / its root mean square
  AS3 uint8_t* gathered;  // of a segment, [token]: its row of x, where rows are picked
  MK_INLINE explicit ProductScratch(const Worker& w)
      : partial((AS3 f32*)(w.scratch() + kEpilogueBytes)),
        value(partial + kPartials),
        scale(value + kBlockSums),
        gathered((AS3 uint8_t*)(scale + kMaxTokens)) {}
};

// Where a sum of [token][row] lies in shared memory. Eights of rows change places, so that what the lanes of
// a matrix instruction store together lies in all banks.
MK_INLINE u32 sum_place(u32 entry) {
  return entry ^ entry / 32 % 4 * 8;
}

MK_INLINE f32 add_warps(AS3 const f32* partial, u32 entry) {
  f32 sum = 0;
  MK_UNROLL
  for (u32 i = 0; i < kConsumerWarps; ++i) sum += partial[i * kBlockSums + sum_place(entry)];
  return sum;
}

constexpr u32 kNoRow = ~0u;

// Rows of x as a product takes them: normalised, and 0 past the last column.
struct XRows {
  const ProductArgs& a;
  AS3 const f32* scale;
  MK_INLINE bool padded(u32 col) const { return a.padding != kNoPadding && col >= a.cols; }
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
  // `ahead`: columns further on; where it is a constant, a part of the load's address.
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
    if (a.padding != kNoPadding) return {packed_at<W>(row, col, ahead), packed_at<W>(row, col, ahead + 2)};
    if (a.x_bf16) return *(AS1 const u32x2*)((AS1 const uint16_t*)a.x + (row * a.cols + col) + ahead);
    f32x4 v = *(AS1 const f32x4*)(a.x + (row * a.cols + col) + ahead);
    if (a.normed) v = v * scale[row] * *(AS1 const f32x4*)(a.norm + col + ahead);
    return {W::pack(v[0], v[1]), W::pack(v[2], v[3])};
  }
  // Of an even column and the next: by one load where rows are of even length. A token that is not there gets
  // the first row, which reaches no other token: to choose zeros would wait for what has been loaded ahead.
  MK_INLINE f32x2 pair(u32 row, u32 col) const { return pair_at(row == kNoRow ? 0 : row, col); }
  // Of a multiple of 4 and the next three, as values of type W: where they are rounded already, without the
  // scale; by one load where rows are of whole k-steps.
  template <class W>
  MK_INLINE u32x2 four(u32 row, u32 col, u32 ahead) const {
    return four_at<W>(row == kNoRow ? 0 : row, col, ahead);
  }
  // 8 columns from a multiple of 8 on; of a token that is not there zeros.
  template <class W>
  MK_INLINE u32x4 piece(u32 row, u32 col) const {
    if (row == kNoRow) return 0;
    if (a.x_bf16 && a.padding == kNoPadding)
      return *(AS1 const u32x4*)((AS1 const uint16_t*)a.x + row * a.cols + col);
    return {packed_at<W>(row, col, 0), packed_at<W>(row, col, 2), packed_at<W>(row, col, 4),
            packed_at<W>(row, col, 6)};
  }
  // What the products of a row are yet to be multiplied with.
  MK_INLINE f32 scale_of(u32 row) const {
    return a.x_bf16 && a.epilogue->sumsq_partials != 0 ? scale[row] : 1;
  }
};

}  // namespace mk
