// What products of strips of weights share: where activations come from, and the accumulators.
//
// Consumer warp w multiplies its own columns of every stage; the warps' partial sums are added in warp order,
// so the result depends on nothing but the operands. Weight bytes reach a lane as one A fragment of
// mma.m16n8k16 (runtime/packing.h): rows g and g + 8, lane = 4 g + t. Tokens are multiplied in groups that
// fit the registers, for each of which the strip streams through the ring anew.
#pragma once

#include "codegen/device/bodies.h"

namespace mk {

constexpr u32 kPartials = kConsumerWarps * kStripRows * kGroupTokens;
static_assert(kPartials >= kMaxTokens * kConsumerWarps);  // as mkb_product_norm uses them

struct ProductScratch {
  AS3 f32* partial;  // [warp][token of the group][row]
  AS3 f32* scale;    // [token]
  AS3 f32* value;    // [token of the group][row]
  MK_INLINE explicit ProductScratch(const Worker& w)
      : partial((AS3 f32*)w.scratch()), scale(partial + kPartials), value(scale + kMaxTokens) {}
};

MK_INLINE f32 add_warps(AS3 const f32* partial, u32 entry) {
  f32 sum = 0;
  MK_UNROLL
  for (u32 i = 0; i < kConsumerWarps; ++i) sum += partial[i * kStripRows * kGroupTokens + entry];
  return sum;
}

// Rows of x as a product takes them: normalised, 0 past the last column.
struct XRows {
  const ProductArgs& a;
  AS3 const f32* scale;
  MK_INLINE bool padded(u32 col) const { return a.padding != kNoPadding && col >= a.cols; }
  MK_INLINE f32 at(u32 row, u32 col) const {
    if (padded(col)) return 0;
    const f32 v = a.x[row * a.cols + col];
    return a.norm ? v * scale[row] * a.norm[col] : v;
  }
  // Of an even column and the next: by one load where rows are of even length.
  MK_INLINE f32x2 pair(u32 row, u32 col) const {
    if (a.padding == kPaddingOfOdd) return {at(row, col), at(row, col + 1)};
    if (padded(col)) return {0, 0};
    const f32x2 v = *(AS1 const f32x2*)(a.x + row * a.cols + col);
    return a.norm ? v * scale[row] * *(AS1 const f32x2*)(a.norm + col) : v;
  }
};

// Accumulators of a strip: step() adds the products of one k-step with the tokens from `token` on, which
// `in.pair(token, col)` gives, 0 where there is none; store() leaves the warp's sums.
//
// f32 weights, and one token of any type: multiply-adds.
template <class W, u32 Tokens>
struct Fma {
  static constexpr u32 tokens = Tokens;
  f32 sum[Tokens * 2];
  MK_INLINE Fma() {
    MK_UNROLL
    for (f32& v : sum) v = 0;
  }
  template <class In>
  MK_INLINE void step(u32 lane, u32x4 bits, const In& in, u32 token, u32 col) {
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
  template <class In>
  MK_INLINE void step(u32 lane, u32x4 bits, const In& in, u32 token, u32 col) {
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

// Drains the strip's stages for the tokens from `token` on and leaves the warps' partial sums.
template <class W, class Accumulator, class In>
MK_INLINE void drain(Worker& w, const ProductArgs& a, const In& in, u32 token, AS3 f32* partial) {
  constexpr u32 step_cols = W::bytes == 2 ? 16 : 8;
  constexpr u32 tile_cols = kStageBytes / kStripRows / W::bytes;
  constexpr u32 full_steps = tile_cols / kConsumerWarps / step_cols;
  Accumulator acc;
  for (u32 tile = 0; tile < a.tiles; ++tile) {
    const u32 slice = (tile + 1 == a.tiles ? a.tail_cols : tile_cols) / kConsumerWarps;
    AS3 const u32x4* stage = (AS3 const u32x4*)acquire_stage(w) + w.warp() * (slice / step_cols) * kWarpLanes;
    const u32 col = tile * tile_cols + w.warp() * slice;
    const auto step = [&](u32 i) {
      acc.step(w.lane(), stage[i * kWarpLanes + w.lane()], in, token, col + i * step_cols);
    };
    // Unrolled, the activations of all steps are loaded together, and a tile shows one latency instead of
    // four. Of 16 tokens that would take 34 registers more.
    if (Accumulator::tokens <= 8 && slice == full_steps * step_cols) {
      MK_UNROLL
      for (u32 i = 0; i < full_steps; ++i) step(i);
    } else {
      for (u32 i = 0; i < slice / step_cols; ++i) step(i);
    }
    release_stage(w);
  }
  acc.store(w.lane(), partial + w.warp() * kStripRows * kGroupTokens);
  consumer_barrier();
}

}  // namespace mk
