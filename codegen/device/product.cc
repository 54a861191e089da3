// Product: one strip of kStripRows weight rows times up to kMaxTokens activation rows.
//
// Consumer warp w multiplies its own columns of every stage; the warps' partial sums are added in warp order,
// so the result depends on nothing but the operands. Weight bytes reach a lane as one A fragment of
// mma.m16n8k16 (runtime/packing.h): rows g and g + 8, lane = 4 g + t. Tokens are multiplied in groups that
// fit the registers, for each of which the strip streams through the ring anew.
#include "codegen/device/bodies.h"

namespace mk {

namespace {

constexpr u32 kPartials = kConsumerWarps * kStripRows * kGroupTokens;
static_assert(kPartials >= kMaxTokens * kConsumerWarps);  // as mkb_product_norm uses them

struct Scratch {
  AS3 f32* partial;  // [warp][token of the group][row]
  AS3 f32* scale;    // [token]
  AS3 f32* value;    // [token of the group][row]
  MK_INLINE explicit Scratch(const Worker& w)
      : partial((AS3 f32*)w.scratch()), scale(partial + kPartials), value(scale + kMaxTokens) {}
};

MK_INLINE f32 add_warps(AS3 const f32* partial, u32 entry) {
  f32 sum = 0;
  MK_UNROLL
  for (u32 i = 0; i < kConsumerWarps; ++i) sum += partial[i * kStripRows * kGroupTokens + entry];
  return sum;
}

// Activations as the product takes them: normalised, 0 past the last column or token.
struct Input {
  const ProductArgs& a;
  AS3 const f32* scale;
  MK_INLINE f32 at(u32 token, u32 col) const {
    if (col >= a.cols) return 0;
    const f32 v = a.x[token * a.cols + col];
    return a.norm ? v * scale[token] * a.norm[col] : v;
  }
  // Of an even column and the next: by one load where rows are of even length.
  MK_INLINE f32x2 pair(u32 token, u32 col) const {
    if (token >= a.tokens) return {0, 0};
    if (a.cols % 2 != 0) return {at(token, col), at(token, col + 1)};
    if (col >= a.cols) return {0, 0};
    const f32x2 v = *(AS1 const f32x2*)(a.x + token * a.cols + col);
    return a.norm ? v * scale[token] * *(AS1 const f32x2*)(a.norm + col) : v;
  }
};

// f32 weights, and one token of any type: multiply-adds.
template <class W, u32 Tokens>
struct Fma {
  static constexpr u32 tokens = Tokens;
  f32 sum[Tokens * 2];
  MK_INLINE Fma() {
    MK_UNROLL
    for (f32& v : sum) v = 0;
  }
  MK_INLINE void step(u32 lane, u32x4 bits, const Input& in, u32 token, u32 col) {
    const u32 c = col + lane % 4 * 2;
    if constexpr (W::bytes == 4) {
      MK_UNROLL
      for (u32 n = 0; n < Tokens; ++n) {
        const f32x2 x = in.pair(token + n, c);
        MK_UNROLL
        for (u32 r = 0; r < 2; ++r) {
          sum[n * 2 + r] = __builtin_fmaf(as_f32(bits[2 * r]), x[0], sum[n * 2 + r]);
          sum[n * 2 + r] = __builtin_fmaf(as_f32(bits[2 * r + 1]), x[1], sum[n * 2 + r]);
        }
      }
    } else {
      MK_UNROLL
      for (u32 i = 0; i < Tokens * 2; ++i) {
        const u32 n = i / 2, half = i % 2;
        const f32x2 x = in.pair(token + n, c + 8 * half);
        const f32 x0 = W::round(x[0]), x1 = W::round(x[1]);
        MK_UNROLL
        for (u32 r = 0; r < 2; ++r) {
          sum[n * 2 + r] = __builtin_fmaf(W::low(bits[2 * half + r]), x0, sum[n * 2 + r]);
          sum[n * 2 + r] = __builtin_fmaf(W::high(bits[2 * half + r]), x1, sum[n * 2 + r]);
        }
      }
    }
  }
  MK_INLINE void store(u32 lane, AS3 f32* partial) {
    MK_UNROLL
    for (u32 i = 0; i < Tokens * 2; ++i) {
      const u32 n = i / 2, r = i % 2;
      const f32 total = mk_quad_sum(sum[i]);
      if (lane % 4 == 0) partial[n * kStripRows + r * 8 + lane / 4] = total;
    }
  }
};

// Tokens in blocks of 8 as the B operand of the matrix instruction.
template <class W, u32 Blocks>
struct Mma {
  static constexpr u32 tokens = Blocks * 8;
  f32 sum[Blocks * 4];
  MK_INLINE Mma() {
    MK_UNROLL
    for (f32& v : sum) v = 0;
  }
  MK_INLINE void step(u32 lane, u32x4 bits, const Input& in, u32 token, u32 col) {
    const u32 c = col + lane % 4 * 2;
    MK_UNROLL
    for (u32 b = 0; b < Blocks; ++b) {
      const u32 n = token + b * 8 + lane / 4;
      const f32x2 low = in.pair(n, c), high = in.pair(n, c + 8);
      W::mma(sum + b * 4, bits, W::pack(low[0], low[1]), W::pack(high[0], high[1]));
    }
  }
  MK_INLINE void store(u32 lane, AS3 f32* partial) {
    MK_UNROLL
    for (u32 e = 0; e < Blocks * 4; ++e) {
      const u32 b = e / 4, i = e % 4;
      partial[(b * 8 + lane % 4 * 2 + i % 2) * kStripRows + i / 2 * 8 + lane / 4] = sum[e];
    }
  }
};

MK_INLINE f32 silu(f32 v) {
  return v * mk_rcp(1.0f + mk_exp2(v * -1.4426950408889634f));
}

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

// The strip's greatest value of each token of the group, the lowest row on ties.
MK_INLINE void keep_best(const Worker& w, const ProductArgs& a, const Scratch& s, u32 strip, u32 first) {
  consumer_barrier();
  const u32 token = first + w.thread;
  if (w.thread >= kGroupTokens || token >= a.tokens) return;
  AS3 const f32* value = s.value + w.thread * kStripRows;
  const u32 rows = a.rows - strip * kStripRows < kStripRows ? a.rows - strip * kStripRows : kStripRows;
  u32 best = 0;
  for (u32 row = 1; row < rows; ++row)
    if (value[row] > value[best]) best = row;
  a.best_value[token * a.strips + strip] = value[best];
  a.best_index[token * a.strips + strip] = strip * kStripRows + best;
}

// Drains the strip's stages for one group of tokens, and finishes it.
template <class W, class Accumulator>
MK_INLINE void multiply(Worker& w, const ProductArgs& a, u32 strip, u32 first) {
  constexpr u32 step_cols = W::bytes == 2 ? 16 : 8;
  constexpr u32 tile_cols = kStageBytes / kStripRows / W::bytes;
  const Scratch s(w);
  const Input in{a, s.scale};
  Accumulator acc;
  for (u32 tile = 0; tile < a.tiles; ++tile) {
    const u32 slice = (tile + 1 == a.tiles ? a.tail_cols : tile_cols) / kConsumerWarps;
    AS3 const u32x4* stage = (AS3 const u32x4*)acquire_stage(w) + w.warp() * (slice / step_cols) * kWarpLanes;
    const u32 col = tile * tile_cols + w.warp() * slice;
    for (u32 i = 0; i < slice / step_cols; ++i)
      acc.step(w.lane(), stage[i * kWarpLanes + w.lane()], in, first, col + i * step_cols);
    release_stage(w);
  }
  acc.store(w.lane(), s.partial + w.warp() * kStripRows * kGroupTokens);
  consumer_barrier();
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
  if (a.tokens == 1) return multiply<W, Fma<W, 1>>(w, a, strip, 0);
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
