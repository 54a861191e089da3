// Products of more tokens by warpgroup matrix instructions. Each of the two warpgroups has four strips of a
// block, a warp one of them, and multiplies them with up to 128 tokens at a time. Weights come to registers,
// as the instruction's first operand. Its second are the activations of 64 columns, a K slice's part of a
// tile, in a stage that the loader leaves to the consumers: a token's 128 bytes after the other's, in the
// order of columns that weights have (runtime/packing.h), of which the 16-byte piece i of token t lies at i ^
// t % 8, so that neither side's accesses meet in a bank.
//
// A lane adds up all K slices in the registers of the instruction.
#pragma once

#include "codegen/device/product_mma64.h"

namespace mk {

constexpr u32 kHalfTokens = 64;  // of one instruction
static_assert(kWgmmaTokens == 2 * kHalfTokens && kWgmmaTokens * kRowBytes == kStageBytes);
static_assert(kMma64Strips == kConsumerWarps);

// Accumulators of eights of tokens, of which the first is at work. They take turns by moving through
// registers, which have no index at run time: one piece of code serves all.
template <class Accumulator, u32 Eights>
struct Turns {
  Accumulator sums[Eights];
  MK_INLINE void clear() {
    MK_UNROLL
    for (Accumulator& a : sums) a.clear();
  }
  // After as many calls as there are eights each is at its place again.
  MK_INLINE void next() {
    const Accumulator first = sums[0];
    MK_UNROLL
    for (u32 i = 0; i + 1 < Eights; ++i) sums[i] = sums[i + 1];
    sums[Eights - 1] = first;
  }
};

// A k-step is two pieces: 8 columns have halves of both.
MK_INLINE void store_swizzled(AS3 char* stage, u32 token, u32 piece, u32x4 bits) {
  AS3 char* to = stage + token * kRowBytes + piece % 2 * (kPieceBytes / 2);
  *(AS3 u32x2*)(to + (piece / 2 * 2 ^ token % kPieces) * kPieceBytes) = u32x2{bits[0], bits[2]};
  *(AS3 u32x2*)(to + ((piece / 2 * 2 + 1) ^ token % kPieces) * kPieceBytes) = u32x2{bits[1], bits[3]};
}

// Drains the stages of `strips` strips for the pass that begins at token `first`. For each 8 tokens of each
// warp: leaves the sums in `sums` [8 tokens][row] (sum_place), a place of the warp's own, and calls
// done(strip, token).
template <class W, class In, class Done>
MK_INLINE void drain_wgmma(Worker& w, const ProductArgs& a, const In& in, u32 first, u32 strips,
                           AS3 f32* sums, const Done& done) {
  using Shape = TileKSlices<W>;
  constexpr u32 steps = Shape::full_steps;
  static_assert(steps * Shape::step_cols * W::bytes == kRowBytes);
  launder_thread(w);
  const u32 tokens = min(a.tokens - first, kWgmmaTokens), parts = kKSlices * a.tiles;
  const auto col = [&](u32 part) { return Shape::col(a, part / a.tiles, part % a.tiles); };
  Turns<Mma<W>, kWgmmaTokens / kMma8Tokens> turns;
  turns.clear();
  f32 *low = turns.sums[0].sum, *high = turns.sums[kHalfTokens / kMma8Tokens].sum;
  Pieces<kWgmmaTokens> x(w, in, first);
  const auto load = [&](u32 part) { x.template load<W>(w, col(part), Shape::steps(a, part % a.tiles)); };
  load(0);
  MK_ROLLED
  for (u32 part = 0; part < parts; ++part) {
    u32x4 weights[steps];
    const u32 there = Shape::steps(a, part % a.tiles);
    AS3 const u32x4* strip = (AS3 const u32x4*)acquire_stage(w) + w.warp() * there * kWarpLanes + w.lane();
    MK_UNROLL
    for (u32 i = 0; i < steps; ++i) weights[i] = i < there && w.warp() < strips ? strip[i * kWarpLanes] : 0;
    release_stage(w);
    AS3 char* rows = (AS3 char*)acquire_stage(w);
    x.each(w, [&](u32 token, u32 piece, u32x4 bits) { store_swizzled(rows, token, piece, bits); });
    mk_fence_proxy_async();
    consumer_barrier();
    // Always all of it: on a path that depends on the thread the assembler waits for each instruction.
    W::wgmma(low, (const u32*)weights, rows);
    W::wgmma(high, (const u32*)weights, rows + kHalfTokens * kRowBytes);
    // Those of the next part come while this one is multiplied; behind the last, its own again.
    load(min(part + 1, parts - 1));
    mk_wgmma_wait(low);
    mk_wgmma_wait(high);
    release_stage(w);
  }
  launder_thread(w);
  MK_ROLLED
  for (u32 token = 0; token < tokens; token += kMma8Tokens, turns.next()) {
    if (w.warp() >= strips) continue;
    turns.sums[0].store(w.lane(), sums);
    done(w.warp(), first + token);
  }
}

}  // namespace mk
