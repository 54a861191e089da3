// Products of many tokens: each consumer warp has 8 tokens, so that no other loads their activations, and
// multiplies them with the strips of a block. Of fewer than 8 times 8 tokens several warps have the same
// ones, and share out the strips.
//
// A lane adds up a chain's products in the registers of the matrix instruction, and then the chains, as the
// warps of few tokens do it together: bits are the same.
#pragma once

#include "codegen/device/product.h"

namespace mk {

// Accumulators of the strips of a block, of which the first is at work. They take turns by moving through
// registers, which have no index at run time: one piece of code serves all strips.
template <class Accumulator, u32 Strips>
struct Turns {
  Accumulator sums[Strips];
  MK_INLINE void clear() {
    MK_UNROLL
    for (Accumulator& a : sums) a.clear();
  }
  // After as many calls as there are strips each is at its place again.
  MK_INLINE void next() {
    const Accumulator first = sums[0];
    MK_UNROLL
    for (u32 i = 0; i + 1 < Strips; ++i) sums[i] = sums[i + 1];
    sums[Strips - 1] = first;
  }
};

// What a warp multiplies of a pass over `strips` strips: tokens [token, token + 8), and strips first, first +
// apart, ... as many as `count`.
struct ManyShare {
  u32 token, first, apart, count;
  MK_INLINE ManyShare(const Worker& w, u32 pass_begin, u32 tokens, u32 strips) {
    const u32 left = tokens - pass_begin, warps = left <= 2 * kFewTokens ? 2 : left <= 4 * kFewTokens ? 4 : 8;
    token = pass_begin + w.warp() % warps * kFewTokens;
    first = w.warp() / warps;
    apart = kConsumerWarps / warps;
    count = token < tokens && first < strips ? (strips - first + apart - 1) / apart : 0;
  }
};

// Drains the stages of a pass over chains [first, first + chains) for a warp's share. Calls each(chain, sums)
// with the sums of each chain, of all strips that a share may have.
template <class W, class In, class Each>
MK_INLINE void drain_chains(Worker& w, const ProductArgs& a, const In& in, const ManyShare& share, u32 first,
                            u32 chains, const Each& each) {
  using Sums = Mma<W>;
  using Shape = Chains<W>;
  const typename Sums::template Rows<In> rows(w.lane(), in, share.token);
  MK_ROLLED
  for (u32 chain = first; chain < first + chains; ++chain) {
    Sums part[kBlockStrips];
    MK_UNROLL
    for (Sums& p : part) p.clear();
    MK_ROLLED
    for (u32 tile = 0; tile < a.tiles; ++tile) {
      const u32 steps = Shape::steps(a, tile), col = Shape::col(a, chain, tile);
      typename Sums::Operand x[Shape::full_steps];
      Shape::template load<Sums>(w.lane(), rows, col, steps, x);
      AS3 const u32x4* stage = (AS3 const u32x4*)acquire_stage(w) + w.lane();
      MK_UNROLL
      for (u32 s = 0; s < kBlockStrips; ++s) {
        if (s >= share.count) continue;
        AS3 const u32x4* strip = stage + (share.first + s * share.apart) * steps * kWarpLanes;
        MK_UNROLL
        for (u32 i = 0; i < Shape::full_steps; ++i)
          if (i < steps) part[s].step(strip[i * kWarpLanes], x[i]);
      }
      release_stage(w);
    }
    each(chain, part);
  }
}

// Drains the stages of `strips` strips for the pass that begins at token `pass_begin`. For each strip of each
// warp: leaves the sums in `sums` [8 tokens][row], a place of the warp's own, and calls done(strip, token).
template <class W, class In, class Done>
MK_INLINE void drain_many(Worker& w, const ProductArgs& a, const In& in, u32 pass_begin, u32 strips,
                          AS3 f32* sums, const Done& done) {
  using Sums = Mma<W>;
  renew_thread(w);
  const ManyShare share(w, pass_begin, a.tokens, strips);
  Turns<Sums, kBlockStrips> total;
  total.clear();
  drain_chains<W>(w, a, in, share, 0, kChains, [&](u32, const Sums* chain) {
    MK_UNROLL
    for (u32 s = 0; s < kBlockStrips; ++s) {
      MK_UNROLL
      for (u32 i = 0; i < 4; ++i) total.sums[s].sum[i] += chain[s].sum[i];
    }
  });
  renew_thread(w);
  MK_ROLLED
  for (u32 s = 0; s < kBlockStrips; ++s, total.next()) {
    if (s >= share.count) continue;
    total.sums[0].store(w.lane(), sums);
    done(share.first + s * share.apart, share.token);
  }
}

}  // namespace mk
