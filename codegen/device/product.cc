// Product: one strip of kStripRows weight rows times up to kMaxTokens activation rows.
#include "codegen/device/product.h"

namespace mk {

namespace {

using Scratch = ProductScratch;

// The tokens of a step are the rows of x.
struct Input {
  XRows x;
  u32 tokens;
  MK_INLINE f32x2 pair(u32 token, u32 col) const {
    // Always a load: a branch around it would keep others from being issued with it.
    const f32x2 v = x.pair(token < tokens ? token : 0, col);
    return token < tokens ? v : 0;
  }
};

// One value: row entry % 16 of token entry / 16 of the group that begins at `first`.
MK_INLINE void finish(const ProductArgs& a, const Scratch& s, u32 strip, u32 first, u32 entry) {
  const u32 row = entry % kStripRows, token = first + entry / kStripRows;
  if (token >= a.tokens) return;
  if (a.silu_mul) {
    const u32 col = strip * (kStripRows / 2) + row;
    if (row < kStripRows / 2 && col < a.out_cols)
      a.out[token * a.out_cols + col] = silu(add_warps(s.partial, entry)) * add_warps(s.partial, entry + 8);
    return;
  }
  const u32 col = strip * kStripRows + row;
  if (col >= a.rows) return;
  f32 v = add_warps(s.partial, entry);
  if (a.bias) v += a.bias[col];
  if (a.residual) v += a.residual[token * a.out_cols + col];
  a.out[token * a.out_cols + col] = v;
  s.value[entry] = v;
}

// The strip's greatest logit of each token of the group, the lowest row on ties.
MK_INLINE void keep_best(const Worker& w, const ProductArgs& a, const Scratch& s, u32 strip, u32 first) {
  consumer_barrier();
  const u32 token = first + w.thread;
  if (w.thread >= kGroupTokens || token >= a.tokens) return;
  AS3 const f32* value = s.value + w.thread * kStripRows;
  const u32 rows = a.rows - strip * kStripRows < kStripRows ? a.rows - strip * kStripRows : kStripRows;
  u32 best = 0;
  for (u32 row = 1; row < rows; ++row)
    if (plain_logit(value[row]) > plain_logit(value[best])) best = row;
  a.best_value[token * a.strips + strip] = value[best];
  a.best_index[token * a.strips + strip] = strip * kStripRows + best;
}

// Drains the strip's stages for one group of tokens, and finishes it.
template <class W, class Accumulator>
MK_INLINE void multiply(Worker& w, const ProductArgs& a, u32 strip, u32 first) {
  const Scratch s(w);
  drain<W, Accumulator>(w, a, Input{{a, s.scale}, a.tokens}, first, s.partial);
  for (u32 entry = w.thread; entry < Accumulator::tokens * kStripRows; entry += kConsumerThreads)
    finish(a, s, strip, first, entry);
  if (a.best_value) keep_best(w, a, s, strip, first);
}

// All groups of an accumulator's size.
template <class W, class Accumulator>
MK_INLINE void multiply_groups(Worker& w, const ProductArgs& a, u32 strip) {
  for (u32 first = 0; first < a.tokens; first += Accumulator::tokens) {
    if (first > 0) consumer_barrier();
    multiply<W, Accumulator>(w, a, strip, first);
  }
}

template <class W>
MK_INLINE void run(Worker& w, const ProductArgs& a, u32 strip) {
  // Of f32 weights all variants add up in the same order.
  if (a.tokens == 1 && (W::bytes == 4 || !a.invariant)) return multiply<W, Fma<W, 1>>(w, a, strip, 0);
  if constexpr (W::bytes == 4) {
    multiply_groups<W, Fma<W, kGroupTokensF32>>(w, a, strip);
  } else {
    if (a.tokens <= 8)
      multiply<W, Mma<W, 1>>(w, a, strip, 0);
    else
      multiply_groups<W, Mma<W, kGroupTokens / 8>>(w, a, strip);
  }
}

}  // namespace

// Root mean square of each row of x (Zhang and Sennrich 2019), once before the first strip of a segment.
MK_BODY void mkb_product_norm(Worker* w, const ProductArgs* a) {
  const Scratch s(*w);
  for (u32 token = 0; token < a->tokens; ++token) {
    f32 sum = 0;
    for (u32 col = w->thread; col < a->cols; col += kConsumerThreads) {
      const f32 v = a->x[token * a->cols + col];
      sum = __builtin_fmaf(v, v, sum);
    }
    sum = mk_warp_sum(sum);
    if (w->lane() == 0) s.partial[token * kConsumerWarps + w->warp()] = sum;
  }
  consumer_barrier();
  if (w->thread < a->tokens) {
    f32 sum = 0;
    for (u32 i = 0; i < kConsumerWarps; ++i) sum += s.partial[w->thread * kConsumerWarps + i];
    s.scale[w->thread] = mk_rsqrt(sum / (f32)a->cols + a->eps);
  }
  consumer_barrier();
}

MK_BODY void mkb_product_f32(Worker* w, const ProductArgs* a, u32 strip) {
  run<F32>(*w, *a, strip);
}
MK_BODY void mkb_product_bf16(Worker* w, const ProductArgs* a, u32 strip) {
  run<Bf16>(*w, *a, strip);
}
MK_BODY void mkb_product_f16(Worker* w, const ProductArgs* a, u32 strip) {
  run<F16>(*w, *a, strip);
}

}  // namespace mk
