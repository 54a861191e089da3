// Experts: products of the rows that route gave each of them, and the sums of each token's.
#include "codegen/device/product.h"

namespace mk {

namespace {

constexpr u32 kNone = 0xffffffffu;

// The rows of a slot. Read by one thread, so that all go the same way even where a fault let this task run
// ahead of route; for the same reason they are kept within the tensors.
struct Slot {
  u32 begin, count;
};

struct Scratch : ProductScratch {
  AS3 u32* x_row;  // [row of the group]; kNone past the slot's rows
  AS3 Slot* slot;
  MK_INLINE explicit Scratch(const Worker& w)
      : ProductScratch(w),
        x_row((AS3 u32*)(value + kGroupTokens * kStripRows)),
        slot((AS3 Slot*)(x_row + kGroupTokens)) {}
};

MK_INLINE u32 least(u32 a, u32 b) {
  return a < b ? a : b;
}

MK_INLINE Slot slot_of(const Worker& w, const ExpertArgs& a, const Scratch& s, u32 slot) {
  if (w.thread == 0) {
    const u32 rows = a.product.tokens * a.top_k;
    const u32 begin = least(a.begin[slot], rows), end = least(a.begin[slot + 1], rows);
    s.slot->begin = begin;
    s.slot->count = begin < end ? least(end - begin, a.product.tokens) : 0;
  }
  consumer_barrier();
  return {s.slot->begin, s.slot->count};
}

// A group of rows as the product takes them.
struct Input {
  XRows x;
  AS3 const u32* x_row;
  MK_INLINE f32x2 pair(u32 row, u32 col) const {
    const u32 from = x_row[row];
    if (from == kNone) return {0, 0};
    return x.pair(from, col);
  }
};

// One value: row entry % 16 of the strip for row entry / 16 of a group of `count` that begins at `first`.
MK_INLINE void finish(const ProductArgs& a, const Scratch& s, u32 strip, u32 first, u32 count, u32 entry) {
  if (entry / kStripRows >= count) return;
  AS1 f32* out = a.out + (first + entry / kStripRows) * a.out_cols;
  const u32 row = entry % kStripRows, col = strip * (a.silu_mul ? kStripRows / 2 : kStripRows) + row;
  if (col >= a.out_cols) return;
  if (!a.silu_mul)
    out[col] = add_warps(s.partial, entry);
  else if (row < kStripRows / 2)
    out[col] = silu(add_warps(s.partial, entry)) * add_warps(s.partial, entry + 8);
}

// All groups of an accumulator's size.
template <class W, class Accumulator>
MK_INLINE void multiply_groups(Worker& w, const ExpertArgs& a, const Slot& slot, u32 strip) {
  const Scratch s(w);
  const ProductArgs& p = a.product;
  const u32 x_rows = a.x_row ? p.tokens : p.tokens * a.top_k;
  for (u32 done = 0; done < slot.count; done += Accumulator::tokens) {
    const u32 first = slot.begin + done, count = least(slot.count - done, Accumulator::tokens);
    if (w.thread < kGroupTokens) {
      const u32 row = first + w.thread;
      s.x_row[w.thread] = w.thread < count ? least(a.x_row ? a.x_row[row] : row, x_rows - 1) : kNone;
    }
    consumer_barrier();
    drain<W, Accumulator>(w, p, Input{{p, s.scale}, s.x_row}, 0, s.partial);
    for (u32 entry = w.thread; entry < Accumulator::tokens * kStripRows; entry += kConsumerThreads)
      finish(p, s, strip, first, count, entry);
  }
}

// The accumulator is chosen by the tokens of the step, not the rows of the slot, so that a token's bits do
// not depend on where the others go.
template <class W>
MK_INLINE void run(Worker& w, const ExpertArgs& a, u32 slot_index, u32 strip) {
  const Slot slot = slot_of(w, a, Scratch(w), slot_index);
  if (a.product.tokens == 1) return multiply_groups<W, Fma<W, 1>>(w, a, slot, strip);
  if constexpr (W::bytes == 4) {
    multiply_groups<W, Fma<W, kGroupTokensF32>>(w, a, slot, strip);
  } else {
    if (slot.count <= 8)
      multiply_groups<W, Mma<W, 1>>(w, a, slot, strip);
    else
      multiply_groups<W, Mma<W, kGroupTokens / 8>>(w, a, slot, strip);
  }
}

}  // namespace

MK_BODY void mkb_expert_f32(Worker* w, const ExpertArgs* a, u32 slot, u32 strip) {
  run<F32>(*w, *a, slot, strip);
}
MK_BODY void mkb_expert_bf16(Worker* w, const ExpertArgs* a, u32 slot, u32 strip) {
  run<Bf16>(*w, *a, slot, strip);
}
MK_BODY void mkb_expert_f16(Worker* w, const ExpertArgs* a, u32 slot, u32 strip) {
  run<F16>(*w, *a, slot, strip);
}

MK_BODY void mkb_expert_sum(Worker* w, const ExpertSumArgs* a, u32 token, u32 block) {
  const u32 rows = a->tokens * a->top_k;
  for (u32 col = block * kSumCols + w->thread; col < least(a->cols, (block + 1) * kSumCols);
       col += kConsumerThreads) {
    f32 sum = 0;
    for (u32 i = 0; i < a->top_k; ++i) {
      const u32 row = least(a->row[token * a->top_k + i], rows - 1);
      sum = __builtin_fmaf(a->share[token * a->top_k + i], a->x[row * a->cols + col], sum);
    }
    a->out[token * a->cols + col] = a->residual ? a->residual[token * a->cols + col] + sum : sum;
  }
}

}  // namespace mk
