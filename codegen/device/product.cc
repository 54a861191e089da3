// Product: a block of strips of kStripRows weight rows times up to kMaxTokens activation rows.
#include "codegen/device/product_many.h"

namespace mk {

namespace {

using Scratch = ProductScratch;

// The tokens of a step are the rows of x, or some of them are picked.
struct Input {
  XRows x;
  AS3 const u32* picked;
  MK_INLINE u32 row_of(u32 token) const { return x.a.picks ? picked[token] : token; }
  // Always a load: a branch around it would keep others from being issued with it.
  MK_INLINE f32x2 pair(u32 token, u32 col) const {
    const f32x2 v = x.pair(row_of(token < x.a.tokens ? token : 0), col);
    return token < x.a.tokens ? v : 0;
  }
  template <class W>
  MK_INLINE u32 packed(u32 token, u32 col) const {
    const u32 v = x.packed<W>(row_of(token < x.a.tokens ? token : 0), col);
    return token < x.a.tokens ? v : 0;
  }
  MK_INLINE f32 scale_of(u32 token) const { return x.scale_of(row_of(token)); }
};

// Of `strips` strips from `strip` on, and of the group of `tokens` that begins at `first`.
struct Sums {
  u32 strip, strips, first, tokens;
  MK_INLINE u32 strip_of(u32 entry) const { return strip + entry / kStripRows / tokens; }
  MK_INLINE u32 token_of(u32 entry) const { return first + entry / kStripRows % tokens; }
  MK_INLINE u32 entries() const { return strips * tokens * kStripRows; }
};

// Row `row` of a strip for a token, from sum(row) times `scale`; returns it.
template <class Sum>
MK_INLINE f32 finish(const ProductArgs& a, u32 strip, u32 token, u32 row, f32 scale, const Sum& sum) {
  if (a.silu_mul) {
    const u32 col = strip * (kStripRows / 2) + row;
    if (row < kStripRows / 2 && col < a.out_cols)
      store_out(a.out, token * a.out_cols + col, silu(sum(row) * scale) * (sum(row + 8) * scale),
                a.out_rounded);
    return 0;
  }
  const u32 col = strip * kStripRows + row;
  if (col >= a.rows) return 0;
  f32 more = 0;
  if (a.bias) more = a.bias[col];
  if (a.residual) more += a.residual[token * a.out_cols + col];
  // In one: left apart, the assembler may join them in the code for some numbers of tokens and not for
  // others.
  const f32 v = __builtin_fmaf(sum(row), scale, more);
  store_out(a.out, token * a.out_cols + col, v, a.out_rounded);
  return v;
}

// By whole warps, of which 16 lanes have the rows of a strip for a token; others' are not `there`.
MK_INLINE void leave_next(const ProductArgs& a, u32 strip, u32 token, u32 row, bool there, f32 v) {
  if (!a.next.norm) return;
  const u32 col = strip * kStripRows + row;
  if (there && col < a.rows)
    Bf16::store(a.next.rounded + (token * a.out_cols + col) * Bf16::bytes, v * a.next.norm[col]);
  f32 sum = __builtin_fmaf(v, v, 0.0f);  // as above
  MK_UNROLL
  for (u32 mask = kStripRows / 2; mask > 0; mask /= 2) sum += mk_shuffle_xor(sum, mask);
  if (there && row == 0) a.next.squares[token * a.strips + strip] = sum;
}

// The greatest logit of a strip and token, the lowest row on ties. `value`: of the rows.
MK_INLINE void keep_best(const ProductArgs& a, u32 strip, u32 token, AS3 const f32* value) {
  const u32 rows = least(a.rows - strip * kStripRows, kStripRows);
  u32 best = 0;
  for (u32 row = 1; row < rows; ++row)
    if (plain_logit(value[row]) > plain_logit(value[best])) best = row;
  const u32 at = token * a.strips + strip;
  a.best_value[at] = value[best];
  a.best_index[at] = strip * kStripRows + best;
}

// Drains a block's stages for each group of tokens of an accumulator's size, and finishes it.
template <class W, class Accumulator, u32 Strips>
MK_INLINE void multiply(Worker& w, const ProductArgs& a, u32 strip, u32 strips) {
  const Scratch s(w);
  const Input in{{a, s.scale}, s.picked};
  for (u32 first = 0; first < a.tokens; first += Accumulator::tokens) {
    if (first > 0) consumer_barrier();
    drain<W, Accumulator, Strips>(w, a, in, first, strips, s.partial);
    const Sums sums{strip, strips, first, Accumulator::tokens};
    for (u32 begin = 0; begin < sums.entries(); begin += kConsumerThreads) {
      const u32 entry = begin + w.thread, row = entry % kStripRows, token = sums.token_of(entry);
      const bool there = entry < sums.entries() && token < a.tokens;
      f32 v = 0;
      if (there)
        v = finish(a, sums.strip_of(entry), token, row, in.scale_of(token),
                   [&](u32 r) { return add_warps(s.partial, entry - row + r); });
      if (there && a.best_value) s.value[entry] = v;
      leave_next(a, sums.strip_of(entry), token, row, there, v);
    }
    if (!a.best_value) continue;
    consumer_barrier();
    const u32 entry = w.thread * kStripRows;
    if (entry < sums.entries() && sums.token_of(entry) < a.tokens)
      keep_best(a, sums.strip_of(entry), sums.token_of(entry), s.value + entry);
  }
}

// The same for many tokens: each warp finishes its own.
template <class W>
MK_INLINE void multiply_many(Worker& w, const ProductArgs& a, u32 strip, u32 strips) {
  constexpr u32 entries = kFewTokens * kStripRows;
  const Scratch s(w);
  const Input in{{a, s.scale}, s.picked};
  AS3 f32* sums = s.partial + w.warp() * entries;
  const auto done = [&](u32 of_block, u32 first) {
    for (u32 entry = w.lane(); entry < entries; entry += kWarpLanes) {
      const u32 row = entry % kStripRows, token = first + entry / kStripRows;
      const bool there = token < a.tokens;
      f32 v = 0;
      if (there)
        v = finish(a, strip + of_block, token, row, in.scale_of(token),
                   [&](u32 r) { return sums[entry - row + r]; });
      if (there && a.best_value) sums[entry] = v;
      leave_next(a, strip + of_block, token, row, there, v);
    }
    if (!a.best_value) return;
    mk_warp_sync();
    if (w.lane() < kFewTokens && first + w.lane() < a.tokens)
      keep_best(a, strip + of_block, first + w.lane(), sums + w.lane() * kStripRows);
  };
  MK_ROLLED
  for (u32 first = 0; first < a.tokens; first += kManyTokens)
    drain_many<W>(w, a, in, first, strips, sums, done);
}

template <class W>
MK_INLINE void run(Worker& w, const ProductArgs& a, u32 strip, u32 strips) {
  if constexpr (W::bytes == 4) {
    if (a.tokens == 1) return multiply<W, FmaF32<1>, 1>(w, a, strip, strips);
    multiply<W, FmaF32<kGroupTokens>, 1>(w, a, strip, strips);
  } else {
    // The step's tokens decide, so that bits do not depend on how many rows are picked.
    if (a.x_rows == 1 && !a.invariant) return multiply<W, Fma<W>, kBlockStrips>(w, a, strip, strips);
    if (a.tokens <= kFewTokens) return multiply<W, Mma<W, 1>, kBlockStrips>(w, a, strip, strips);
    multiply_many<W>(w, a, strip, strips);
  }
}

}  // namespace

// Which rows of x are multiplied: all, or the last of each request. Once before the first strip of a segment.
MK_BODY void mkb_product_rows(Worker* w, const ProductArgs* a) {
  const u32 i = w->thread;
  if (i < a->tokens) Scratch(*w).picked[i] = a->tokens == a->x_rows ? i : a->first_row[i] + a->q_len[i] - 1;
  consumer_barrier();
}

// Root mean square of each row of x (Zhang and Sennrich 2019), once before the first strip of a segment: from
// its elements, or from the sums of squares that its writers left.
MK_BODY void mkb_product_norm(Worker* w, const ProductArgs* a) {
  const Scratch s(*w);
  const auto x_row = [&](u32 token) { return a->picks ? s.picked[token] : token; };
  const auto scale_of = [&](f32 sum) { return mk_rsqrt(sum / (f32)a->cols + a->eps); };
  if (a->rounded) {
    for (u32 token = w->warp(); token < a->tokens; token += kConsumerWarps) {
      AS1 const f32* squares = a->squares + x_row(token) * a->parts;
      f32 sum = 0;
      for (u32 i = w->lane(); i < a->parts; i += kWarpLanes) sum += squares[i];
      sum = mk_warp_sum(sum);
      if (w->lane() == 0) s.scale[x_row(token)] = scale_of(sum);
    }
    consumer_barrier();
    return;
  }
  for (u32 token = 0; token < a->tokens; ++token) {
    f32 sum = 0;
    for (u32 col = w->thread; col < a->cols; col += kConsumerThreads) {
      const f32 v = a->x[x_row(token) * a->cols + col];
      sum = __builtin_fmaf(v, v, sum);
    }
    sum = mk_warp_sum(sum);
    if (w->lane() == 0) s.partial[token * kConsumerWarps + w->warp()] = sum;
  }
  consumer_barrier();
  if (w->thread < a->tokens) {
    f32 sum = 0;
    for (u32 i = 0; i < kConsumerWarps; ++i) sum += s.partial[w->thread * kConsumerWarps + i];
    s.scale[x_row(w->thread)] = scale_of(sum);
  }
  consumer_barrier();
}

MK_BODY void mkb_product_f32(Worker* w, const ProductArgs* a, u32 strip, u32 strips) {
  run<F32>(*w, *a, strip, strips);
}
MK_BODY void mkb_product_bf16(Worker* w, const ProductArgs* a, u32 strip, u32 strips) {
  run<Bf16>(*w, *a, strip, strips);
}
MK_BODY void mkb_product_f16(Worker* w, const ProductArgs* a, u32 strip, u32 strips) {
  run<F16>(*w, *a, strip, strips);
}

}  // namespace mk
