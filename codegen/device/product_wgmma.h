// Wgmma128: products of many tokens by warpgroup matrix instructions. A pass has up to 128 tokens, or 64 in a
// kernel whose steps have no more. Each of the two warpgroups has four strips of a block, one for each warp.
//
// Weights are the A operand, in registers. Activations are the B operand: 64 columns, which are those of one
// tile slice. The B operand lies in a ring stage that the loader leaves empty for the consumers. Tokens have
// consecutive rows of 128 bytes there. The columns of a row are in the order of the weights
// (runtime/abi/packing.h). The 16-byte chunk i of token t lies at index i ^ t % 8. Neither the stores nor the
// instruction's reads have bank conflicts in this order.
//
// A lane sums all K slices in the accumulators of the instruction. The other variants sum each K slice by
// itself, so their bits may differ.
//
// Weights and activations of E4M3 are multiplied as their codes (X is E4m3). A row of the stage then has 64
// bytes of codes in the order of columns, and nothing in the other 64. Scales of whole rows are left to the
// epilogue.
//
// A tile slice of a format with groups has one scale for each row (wgmma_cols()). The accumulators are sums
// divided by the scale of the last tile slice. They are multiplied by the quotient of two scales where a tile
// slice has another scale than the one before. So groups need no second set of accumulators.
#pragma once

#include "codegen/device/product_mma64.h"

namespace mk {

constexpr u32 kHalfTokens = 64;  // tokens of one instruction (N)
static_assert(kWgmmaTokens == 2 * kHalfTokens && kWgmmaTokens * kRowBytes == kStageBytes);
static_assert(kMma64Strips == kConsumerWarps);

// RotatingSums holds the accumulators of `Eights` groups of 8 tokens; the current one is sums[0]. Registers
// have no run-time index. Rotation through registers lets one chunk of code serve all groups.
template <class Accumulator, u32 Eights>
struct RotatingSums {
  Accumulator sums[Eights];
  MK_INLINE void clear() {
    MK_UNROLL
    for (Accumulator& a : sums) a.clear();
  }
  // next() rotates by one; `Eights` calls restore the order.
  MK_INLINE void next() {
    const Accumulator first = sums[0];
    MK_UNROLL
    for (u32 i = 0; i + 1 < Eights; ++i) sums[i] = sums[i + 1];
    sums[Eights - 1] = first;
  }
};

// A k-step is two 16-byte chunks. 8 columns of x fill one half of each chunk.
MK_INLINE void store_swizzled(AS3 char* stage, u32 token, u32 chunk, u32x4 bits) {
  AS3 char* to = stage + token * kRowBytes + chunk % 2 * (kChunkBytes / 2);
  *(AS3 u32x2*)(to + (chunk / 2 * 2 ^ token % kRowChunks) * kChunkBytes) = u32x2{bits[0], bits[2]};
  *(AS3 u32x2*)(to + ((chunk / 2 * 2 + 1) ^ token % kRowChunks) * kChunkBytes) = u32x2{bits[1], bits[3]};
}

MK_INLINE void store_codes(AS3 char* stage, u32 token, u32 chunk, u32x4 codes) {
  *(AS3 u32x4*)(stage + token * kRowBytes + (chunk ^ token % kRowChunks) * kChunkBytes) = codes;
}

// Fragments are the A fragments of a warp's tile slice, with zeros beyond the k-steps that are there.
template <class W, class X>
struct Fragments {
  static constexpr u32 steps = TileKSlices<W>::full_steps;
  static constexpr u32 count = steps * X::bytes / 2;  // two k-steps of 8-bit floats are one fragment
  u32x4 of[count];
  MK_INLINE void load(AS3 const typename W::Words* words, u32 there) {
    MK_UNROLL
    for (u32 i = 0; i < steps; ++i) {
      if constexpr (X::bytes == 1) {
        const u32x2 codes = i < there ? words[i * kWarpLanes] : 0;
        of[i / 2][i % 2 * 2] = codes[0];
        of[i / 2][i % 2 * 2 + 1] = codes[1];
      } else {
        of[i] = i < there ? W::unpack(words[i * kWarpLanes]) : 0;
      }
    }
  }
};

// TileSlice is the place of a tile slice in its strip. next() goes to the tile slice behind it. Counting
// avoids a division.
struct TileSlice {
  u32 k_slice = 0, tile = 0;
  MK_INLINE void next(const ProductArgs& a) {
    const bool ends = tile + 1 == a.tiles;
    tile = ends ? 0 : tile + 1;
    k_slice += ends;
  }
};

// Weights whose scale is below kMinGroupScale count as 0. So quotients with scales up to 2^63 are finite.
constexpr f32 kMinGroupScale = 0x1p-63f;

// rescale() prepares a lane's sums for a tile slice with other scales. `scales` are those of the one before,
// and become what the sums are divided by. `weights` are the A fragments of the tile slice.
template <class Sums, u32 Steps>
MK_INLINE void rescale(f32x2 to, f32x2& scales, u32x4 (&weights)[Steps], Sums& all) {
  if (to[0] == scales[0] && to[1] == scales[1]) return;
  f32x2 by = 1;
  MK_UNROLL
  for (u32 half = 0; half < 2; ++half) {
    const bool none = __builtin_fabsf(to[half]) < kMinGroupScale;
    MK_UNROLL
    for (u32x4& fragment : weights) {
      fragment[half] = none ? 0 : fragment[half];
      fragment[half + 2] = none ? 0 : fragment[half + 2];
    }
    if (none) continue;
    by[half] = scales[half] / to[half];
    scales[half] = to[half];
  }
  MK_UNROLL
  for (auto& sums : all.sums) sums.scale(by);
}

// drain_wgmma() drains the stages of `strips` strips for the pass that begins at token `first`. The sums of
// each 8 tokens of a warp go to `sums` [8 tokens][row] (sum_place). done(strip, token) follows each such
// store. `sums` belongs to this warp alone. X is the type of activations: E4m3 for codes, else that of W. A
// pass has at most Tokens tokens: those of one instruction or of two.
template <class W, class X, u32 Tokens, class In, class Done>
MK_INLINE void drain_wgmma(Worker& w, const ProductArgs& a, const In& in, u32 first, u32 strips,
                           AS3 f32* sums, const Done& done) {
  using Words = typename W::Words;
  using Shape = TileKSlices<W>;
  static_assert(Shape::full_cols == kFp8Cols);
  launder_thread(w);
  const u32 tokens = min(a.tokens - first, Tokens), tile_slices = kKSlices * a.tiles;
  constexpr u32 halves = Tokens / kHalfTokens;
  RotatingSums<Mma<typename W::X>, Tokens / kMma8Tokens> rotating;
  rotating.clear();
  f32* of_half[halves];
  MK_UNROLL
  for (u32 half = 0; half < halves; ++half)
    of_half[half] = rotating.sums[half * kHalfTokens / kMma8Tokens].sum;
  Chunks<Tokens, X> x(w, in, first);
  const auto load = [&](const TileSlice& at) {
    x.load(w, Shape::col(a, at.k_slice, at.tile), Shape::steps(a, at.tile));
  };
  TileSlice here;
  load(here);
  f32x2 scales = 1;
  MK_ROLLED
  for (u32 number = 1; number <= tile_slices; ++number) {
    Fragments<W, X> weights;
    const u32 tile = here.tile, there = Shape::steps(a, tile);
    AS3 const Words* strip =
        (AS3 const Words*)acquire_stage(w) + Shape::words_at(a, tile, there, w.warp(), 0) + w.lane();
    weights.load(strip, w.warp() < strips ? there : 0);
    if constexpr (W::grouped)
      if (w.warp() < strips)
        rescale(Shape::group(w.lane(), strip - w.lane() + there * kWarpLanes, 0).scales, scales, weights.of,
                rotating);
    if constexpr (W::scaled)
      if (tile + 1 == a.tiles && w.warp() < strips)
        scales = Shape::scales(w.lane(), strip - w.lane() + there * kWarpLanes, there);
    release_stage(w);
    AS3 char* rows = (AS3 char*)acquire_stage(w);
    x.each(w, [&](u32 token, u32 chunk, u32x4 bits) {
      X::bytes == 1 ? store_codes(rows, token, chunk, bits) : store_swizzled(rows, token, chunk, bits);
    });
    mk_fence_proxy_async();
    consumer_barrier();
    // The instructions run whatever the thread has to do. ptxas waits after each wgmma on a path that depends
    // on the thread.
    MK_UNROLL
    for (u32 half = 0; half < halves; ++half)
      X::wgmma(of_half[half], (const u32*)weights.of, rows + half * kHalfTokens * kRowBytes);
    // The activations of the next tile slice load while this one is multiplied. The last one loads its own
    // again, which nobody uses.
    if (number < tile_slices) here.next(a);
    load(here);
    MK_UNROLL
    for (f32* sums_of_half : of_half) mk_wgmma_wait(sums_of_half);
    release_stage(w);
  }
  launder_thread(w);
  MK_ROLLED
  for (u32 token = 0; token < tokens; token += kMma8Tokens, rotating.next()) {
    if (w.warp() >= strips) continue;
    if constexpr (W::scaled || W::grouped) rotating.sums[0].scale(scales);
    rotating.sums[0].store(w.lane(), sums);
    done(w.warp(), first + token);
  }
}

}  // namespace mk
