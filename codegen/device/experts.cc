// Experts: products of the rows that route gave each of them, and the sums of each token's.
#include "codegen/device/next.h"
#include "codegen/device/product.h"

namespace mk {

namespace {

struct Scratch : ProductScratch {
  AS3 u32* x_row;  // [row of the group]; the first again past its rows
  AS3 u32* begin;  // of the slot's rows, and their number
  MK_INLINE explicit Scratch(const Worker& w)
      : ProductScratch(w), x_row((AS3 u32*)(value + kBlockSums)), begin(x_row + kGroupTokens) {}
};
static_assert((kPartials + kMaxTokens + kBlockSums + kGroupTokens + 2) * 4 <= kScratchBytes);

// A group of `count` rows as the product takes them.
struct Input {
  XRows x;
  AS3 const u32* x_row;
  u32 count;
  // Always a load, as in product.cc.
  MK_INLINE f32x2 pair(u32 row, u32 col) const {
    const f32x2 v = x.pair(x_row[row], col);
    return row < count ? v : 0;
  }
  template <class W>
  MK_INLINE u32 packed(u32 row, u32 col) const {
    const u32 v = x.packed<W>(x_row[row], col);
    return row < count ? v : 0;
  }
};

// One value: row entry % 16 of the strip for row entry / 16 of a group of `count` that begins at `first`.
MK_INLINE void finish(const ProductArgs& a, const Scratch& s, u32 strip, u32 first, u32 count, u32 entry) {
  const u32 of_group = entry / kStripRows;
  if (of_group >= count) return;
  const u32 row = entry % kStripRows, col = strip * (a.silu_mul ? kStripRows / 2 : kStripRows) + row;
  if (col >= a.out_cols || (a.silu_mul && row >= kStripRows / 2)) return;
  const f32 scale = XRows{a, s.scale}.scale_of(s.x_row[of_group]);
  f32 v = add_warps(s.partial, entry) * scale;
  if (a.silu_mul) v = silu(v) * (add_warps(s.partial, entry + 8) * scale);
  store_out(a.out, (first + of_group) * a.out_cols + col, v, a.out_rounded);
}

// All groups of an accumulator's size of the `rows` that begin at `begin`.
template <class W, class Accumulator>
MK_INLINE void multiply_groups(Worker& w, const ExpertArgs& a, u32 strip, u32 begin, u32 rows) {
  const Scratch s(w);
  const ProductArgs& p = a.product;
  for (u32 done = 0; done < rows; done += Accumulator::tokens) {
    const u32 first = begin + done, count = least(rows - done, Accumulator::tokens);
    if (done > 0) consumer_barrier();
    if (w.thread < kGroupTokens) {
      const u32 row = first + (w.thread < count ? w.thread : 0);
      s.x_row[w.thread] = a.token ? least(a.token[row], p.tokens - 1) : row;
    }
    consumer_barrier();
    drain<W, Accumulator, 1>(w, p, Input{{p, s.scale}, s.x_row, count}, 0, 1, s.partial);
    consumer_barrier();
    for (u32 entry = w.thread; entry < Accumulator::tokens * kStripRows; entry += kConsumerThreads)
      finish(p, s, strip, first, count, entry);
  }
}

// One thread reads where the slot's rows are, so that all go the same way even where a fault let this task
// run ahead of route; for the same reason what is read from its tables is kept within bounds.
template <class W>
MK_INLINE void run(Worker& w, const ExpertArgs& a, u32 strip, u32 slot) {
  const Scratch s(w);
  if (w.thread == 0) {
    const u32 rows = least(a.slot_rows[slot], a.product.tokens);
    s.begin[0] = least(a.slot_begin[slot], a.rows - rows);
    s.begin[1] = rows;
  }
  consumer_barrier();
  const u32 begin = s.begin[0], rows = s.begin[1];
  if constexpr (W::bytes == 4) {
    if (a.product.tokens == 1) return multiply_groups<W, FmaF32<1>>(w, a, strip, begin, rows);
    multiply_groups<W, FmaF32<kGroupTokens>>(w, a, strip, begin, rows);
  } else {
    if (rows <= kFewTokens) return multiply_groups<W, Mma<W, 1>>(w, a, strip, begin, rows);
    multiply_groups<W, Mma<W, kGroupTokens / 8>>(w, a, strip, begin, rows);
  }
}

}  // namespace

MK_BODY void mkb_expert_f32(Worker* w, const ExpertArgs* a, u32 strip, u32 slot) {
  run<F32>(*w, *a, strip, slot);
}
MK_BODY void mkb_expert_bf16(Worker* w, const ExpertArgs* a, u32 strip, u32 slot) {
  run<Bf16>(*w, *a, strip, slot);
}
MK_BODY void mkb_expert_f16(Worker* w, const ExpertArgs* a, u32 strip, u32 slot) {
  run<F16>(*w, *a, strip, slot);
}

MK_BODY void mkb_expert_sum(Worker* w, const ExpertSumArgs* a, u32 token, u32 block) {
  f32 squares = 0;
  for (u32 col = block * kSumCols + w->thread; col < least(a->cols, (block + 1) * kSumCols);
       col += kConsumerThreads) {
    f32 sum = 0;
    for (u32 i = 0; i < a->top_k; ++i) {
      const u32 row = least(a->row[token * a->top_k + i], a->rows - 1);
      sum = __builtin_fmaf(a->share[token * a->top_k + i], a->x[row * a->cols + col], sum);
    }
    if (a->residual) sum = a->residual[token * a->cols + col] + sum;
    a->out[token * a->cols + col] = sum;
    squares = leave_rounded(a->next, token * a->cols, col, sum, squares);
  }
  leave_squares(*w, a->next, token * ((a->cols + kSumCols - 1) / kSumCols) + block, squares);
}

}  // namespace mk
