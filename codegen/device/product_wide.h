// Products of more tokens by warpgroup matrix instructions. Each of the two warpgroups has four strips of a
// block, a warp one of them, and multiplies them with up to 128 tokens at a time. Weights come to registers,
// as the instruction's first operand. Its second are the activations of 64 columns, a chain's part of a tile,
// in a stage that the loader leaves to the consumers: a token's 128 bytes after the other's, in the order of
// columns that weights have (runtime/packing.h), of which the 16-byte piece i of token t lies at i ^ t % 8,
// so that neither side's accesses meet in a bank.
//
// A lane adds up all chains in the registers of the instruction.
#pragma once

#include "codegen/device/product_many.h"

namespace mk {

constexpr u32 kHalfTokens = 64;  // of one instruction
constexpr u32 kRowBytes = 128;   // of a token in a stage
constexpr u32 kPieceBytes = 16;
constexpr u32 kPieces = kRowBytes / kPieceBytes;
static_assert(kWideTokens == 2 * kHalfTokens && kWideTokens * kRowBytes == kStageBytes);
static_assert(kWideStrips == kConsumerWarps);

// A thread's part of what the consumers bring into a stage: one piece of each of four tokens.
struct Pieces {
  static constexpr u32 count = kWideTokens * kPieces / kConsumerThreads;
  static constexpr u32 apart = kConsumerThreads / kPieces;  // tokens
  XRows x;
  u32 row[count];
  u32x4 bits[count];

  template <class In>
  MK_INLINE Pieces(const Worker& w, const In& in, u32 first) : x(in.x) {
    MK_UNROLL
    for (u32 i = 0; i < count; ++i) row[i] = in.row_of(first + w.thread / kPieces + i * apart);
  }
  template <class W>
  MK_INLINE void load(const Worker& w, u32 col) {
    MK_UNROLL
    for (u32 i = 0; i < count; ++i) bits[i] = x.piece<W>(row[i], col + w.thread % kPieces * 8);
  }
  MK_INLINE void store(const Worker& w, AS3 char* stage) const {
    MK_UNROLL
    for (u32 i = 0; i < count; ++i) {
      const u32 token = w.thread / kPieces + i * apart, piece = w.thread % kPieces;
      // A k-step is two pieces: 8 columns have halves of both.
      AS3 char* to = stage + token * kRowBytes + piece % 2 * (kPieceBytes / 2);
      *(AS3 u32x2*)(to + (piece / 2 * 2 ^ token % kPieces) * kPieceBytes) = u32x2{bits[i][0], bits[i][2]};
      *(AS3 u32x2*)(to + ((piece / 2 * 2 + 1) ^ token % kPieces) * kPieceBytes) =
          u32x2{bits[i][1], bits[i][3]};
    }
  }
};

// Drains the stages of `strips` strips for the pass that begins at token `first`. For each 8 tokens of each
// warp: leaves the sums in `sums` [8 tokens][row], a place of the warp's own, and calls done(strip, token).
template <class W, class In, class Done>
MK_INLINE void drain_wide(Worker& w, const ProductArgs& a, const In& in, u32 first, u32 strips, AS3 f32* sums,
                          const Done& done) {
  using Shape = Chains<W>;
  constexpr u32 steps = Shape::full_steps;
  static_assert(steps * Shape::step_cols * W::bytes == kRowBytes);
  renew_thread(w);
  const u32 tokens = least(a.tokens - first, kWideTokens), parts = kChains * a.tiles;
  const auto col = [&](u32 part) { return Shape::col(a, part / a.tiles, part % a.tiles); };
  Turns<Mma<W>, kWideTokens / kFewTokens> turns;
  turns.clear();
  f32 *low = turns.sums[0].sum, *high = turns.sums[kHalfTokens / kFewTokens].sum;
  Pieces x(w, in, first);
  x.load<W>(w, col(0));
  MK_ROLLED
  for (u32 part = 0; part < parts; ++part) {
    u32x4 weights[steps];
    const u32 there = Shape::steps(a, part % a.tiles);
    AS3 const u32x4* strip = (AS3 const u32x4*)acquire_stage(w) + w.warp() * there * kWarpLanes + w.lane();
    MK_UNROLL
    for (u32 i = 0; i < steps; ++i) weights[i] = i < there && w.warp() < strips ? strip[i * kWarpLanes] : 0;
    release_stage(w);
    AS3 char* rows = (AS3 char*)acquire_stage(w);
    x.store(w, rows);
    mk_fence_proxy_async();
    consumer_barrier();
    // Always all of it: on a path that depends on the thread the assembler waits for each instruction.
    W::wgmma(low, (const u32*)weights, rows);
    W::wgmma(high, (const u32*)weights, rows + kHalfTokens * kRowBytes);
    // Those of the next part come while this one is multiplied; behind the last, its own again.
    x.load<W>(w, col(least(part + 1, parts - 1)));
    mk_wgmma_wait(low);
    mk_wgmma_wait(high);
    release_stage(w);
  }
  renew_thread(w);
  MK_ROLLED
  for (u32 token = 0; token < tokens; token += kFewTokens, turns.next()) {
    if (w.warp() >= strips) continue;
    turns.sums[0].store(w.lane(), sums);
    done(w.warp(), first + token);
  }
}

}  // namespace mk
