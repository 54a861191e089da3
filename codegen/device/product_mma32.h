// Mma32: products of up to 32 tokens. Each consumer warp has one K slice, as in Mma8. The warp multiplies a
// tile of all strips of the block at once, k-step after k-step. The warp holds the activations of the next
// k-steps only. The registers saved hold the sums of more tokens.
#pragma once

#include "codegen/device/product_sums.h"

namespace mk {

// kAhead is the number of k-steps whose activations are loading or in use.
template <class Sum>
constexpr u32 kAhead = Sum::tokens == kMma32Tokens ? 1 : 2;

// drain_mma32() drains a block's stages like drain_mma8(), but takes all stages of a tile at once.
template <class W, class Sum, u32 Stages, class In, class Done>
MK_INLINE void drain_mma32(Worker& w, const ProductArgs& a, const In& in, const WarpKSlice& share,
                           const Done& done) {
  using Shape = TileKSlices<W>;
  using Words = typename W::Words;
  constexpr u32 full_steps = Shape::full_steps;
  launder_thread(w);
  Sum sums[Stages];
  MK_UNROLL
  for (Sum& sum : sums) sum.clear();
  const typename Sum::template Rows<In> rows(w.lane(), in, 0);
  // The columns of a K slice are contiguous in x, across tiles.
  u32 col = Shape::col(a, share.k_slice, 0);
  const u32 last =
      col + (a.tiles - 1) * Shape::full_cols + (Shape::steps(a, a.tiles - 1) - 1) * Shape::step_cols;
  typename Sum::Operand x[kAhead<Sum>];
  MK_UNROLL
  for (u32 i = 0; i < kAhead<Sum>; ++i)
    x[i] = Sum::load(w.lane(), rows, min(col + i * Shape::step_cols, last), 0);
  MK_ROLLED
  for (u32 tile = 0; tile < a.tiles; ++tile) {
    const u32 steps = Shape::steps(a, tile);
    MK_ROLLED
    for (u32 s = 0; s < share.stages; ++s) acquire_stage(w, s);
    AS3 const Words* stage[Stages];
    MK_UNROLL
    for (u32 s = 0; s < Stages; ++s)
      stage[s] = (AS3 const Words*)w.stage_at((w.stages_acquired + s) % w.stages) +
                 Shape::words_at(a, tile, steps, w.warp(), 0) + w.lane();
    MK_UNROLL
    for (u32 i = 0; i < full_steps; ++i) {
      if (i >= steps) continue;
      MK_UNROLL
      for (u32 s = 0; s < Stages; ++s)
        if (s < share.strips) sums[s].step(W::unpack(stage[s][i * kWarpLanes]), x[i % kAhead<Sum>]);
      x[i % kAhead<Sum>] = Sum::load(w.lane(), rows, min(col + kAhead<Sum> * Shape::step_cols, last), 0);
      col += Shape::step_cols;
    }
    if constexpr (W::scaled) {
      MK_UNROLL
      for (u32 s = 0; s < Stages; ++s)
        if (s < share.strips && tile + 1 == a.tiles)
          sums[s].scale(Shape::scales(w.lane(), stage[s] - w.lane() + steps * kWarpLanes, steps));
    }
    MK_ROLLED
    for (u32 s = 0; s < share.stages; ++s) release_stage(w);
  }
  launder_thread(w);
  each_sum(sums, share.strips, done);
}

// drain_groups() drains a block's stages strip by strip, since a format with groups has sums of its own for
// each group. The last strip of a tile that uses a k-step's activations loads those of the next tile, if
// there is one.
template <class W, class Sum, u32 Stages, class In, class Done>
MK_INLINE void drain_groups(Worker& w, const ProductArgs& a, const In& in, const WarpKSlice& share,
                            const Done& done) {
  using Shape = TileKSlices<W>;
  using Words = typename W::Words;
  launder_thread(w);
  Sum sums[Stages];
  MK_UNROLL
  for (Sum& sum : sums) sum.clear();
  const typename Sum::template Rows<In> rows(w.lane(), in, 0);
  typename Sum::Operand x[Shape::full_steps] = {};
  Shape::template load<Sum>(w.lane(), rows, Shape::col(a, share.k_slice, 0), Shape::steps(a, 0), x);
  MK_ROLLED
  for (u32 tile = 0; tile < a.tiles; ++tile) {
    const u32 steps = Shape::steps(a, tile);
    const u32 next_col = Shape::col(a, share.k_slice, tile + 1), next_steps = Shape::steps(a, tile + 1);
    MK_ROLLED
    for (u32 strip = 0; strip < share.stages; ++strip) {
      AS3 const Words* stage =
          (AS3 const Words*)acquire_stage(w) + Shape::words_at(a, tile, steps, w.warp(), 0) + w.lane();
      const u32 mine = strip < share.strips ? steps : 0;
      const bool loads_next = strip + 1 == share.strips && tile + 1 < a.tiles;
      add_groups<W>(
          w.lane(), stage, steps, mine, strip, sums, [&](u32 i) { return x[i]; },
          [&](u32 i) {
            if (loads_next)
              x[i] = Sum::load(w.lane(), rows, next_col + (i < next_steps ? i * Shape::step_cols : 0), 0);
          });
      if (mine != 0 && tile + 1 == a.tiles) scale_rows<W>(w.lane(), stage, steps, strip, sums);
      release_stage(w);
    }
  }
  launder_thread(w);
  each_sum(sums, share.strips, done);
}

}  // namespace mk
