// Mma8: products of few tokens, and all products of f32 weights. Each consumer warp has one K slice.
#pragma once

#include "codegen/device/product_sums.h"

namespace mk {

constexpr u32 kKeptOperand = 16;  // most bytes of one k-step's activations that a lane prefetches

// drain_mma8() drains a block's ring stages for the group of tokens that begins at `token`. drain_mma8() goes
// tile by tile, and through at most `Stages` stages of each tile. loads.load() issues other loads, behind
// those of the first activations, and loads.use() takes their values behind the first tile. done(i,
// accumulator) receives the sums of the warp's i-th strip, and zeros for strips that it does not have.
//
// Operands of at most kKeptOperand bytes are prefetched: a tile's activations load while the tile before is
// multiplied. `operand` and `next` are set on every path. PTX has no undef: a value left unset on one path
// stays live through the whole kernel.
template <class W, class Accumulator, u32 Stages, class In, class Loads, class Done>
MK_INLINE void drain_mma8(Worker& w, const ProductArgs& a, const In& in, u32 token, const WarpKSlice& share,
                          Loads& loads, const Done& done) {
  using Shape = TileKSlices<W>;
  using Operand = typename Accumulator::Operand;
  using Words = typename W::Words;
  constexpr u32 full_steps = Shape::full_steps;
  constexpr bool kept = sizeof(Operand) <= kKeptOperand;
  static_assert(kept || !W::grouped);
  launder_thread(w);
  Accumulator sums[Stages];
  MK_UNROLL
  for (Accumulator& sum : sums) sum.clear();
  const typename Accumulator::template Rows<In> rows(w.lane(), in, token);
  const auto col = [&](u32 tile) { return Shape::col(a, share.k_slice, tile); };
  Operand operand[full_steps] = {}, next[full_steps] = {};
  const auto load_next = [&](u32 tile) {
    Shape::template load<Accumulator>(w.lane(), rows, col(tile), Shape::steps(a, tile), next);
  };
  if (kept) load_next(0);
  loads.load();
  u32 tile = 0;
  do {  // a strip has a tile, and a block has a stage
    const u32 steps = Shape::steps(a, tile);
    if (kept) {
      MK_UNROLL
      for (u32 i = 0; i < full_steps; ++i) operand[i] = next[i];
      if (tile + 1 < a.tiles) load_next(tile + 1);
    }
    u32 strip = 0;
    MK_ROLLED
    do {
      AS3 const Words* stage =
          (AS3 const Words*)acquire_stage(w) + Shape::words_at(a, tile, steps, w.warp(), 0) + w.lane();
      const u32 mine = strip < share.strips ? steps : 0;
      if constexpr (W::grouped) {
        add_groups<W>(
            w.lane(), stage, steps, mine, strip, sums, [&](u32 i) { return operand[i]; }, [](u32) {});
      } else {
        at_index<Stages>(strip, [&](u32 s) {
          if (!kept) {
            for (u32 i = 0; i < mine; ++i)
              sums[s].step(W::unpack(stage[i * kWarpLanes]),
                           Accumulator::load(w.lane(), rows, col(tile), i * Shape::step_cols));
          } else if (mine == full_steps) {
            MK_UNROLL
            for (u32 i = 0; i < full_steps; ++i) sums[s].step(W::unpack(stage[i * kWarpLanes]), operand[i]);
          } else {
            MK_UNROLL
            for (u32 i = 0; i + 1 < full_steps; ++i)
              if (i < mine) sums[s].step(W::unpack(stage[i * kWarpLanes]), operand[i]);
          }
        });
      }
      if (mine != 0 && tile + 1 == a.tiles) scale_rows<W>(w.lane(), stage, steps, strip, sums);
      release_stage(w);
    } while (++strip < share.stages);
    if (tile == 0) loads.use();
  } while (++tile < a.tiles);
  launder_thread(w);
  MK_UNROLL
  for (u32 strip = 0; strip < Stages; ++strip) done(strip, sums[strip]);
}

}  // namespace mk
