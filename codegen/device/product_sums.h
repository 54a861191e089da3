// All product variants share these parts: accumulators, operand loads, and sums of K slices.
//
// A product multiplies strips of 16 weight rows with the activation rows of a step. Mma8, Mma32 and Mma64 sum
// each K slice and then add the K slices in order (runtime/abi/packing.h). Their results depend on the
// operands alone, not on the variant. Wgmma128 differs: it has one running sum over all K slices.
//
// Weights reach a lane as one 16-byte A fragment of mma.m16n8k16: rows g and g + 8, where lane = 4 g + t. The
// fragment of any format is what its unpack() makes of a lane's words (codegen/device/weights.h). A block is
// a run of strips that share one load of their activations. Tokens are multiplied in groups. Registers limit
// the size of blocks and groups. The ring streams a block's weights again for each group of tokens. Each
// consumer warp of Mma8 has one K slice. Mma64 gives each warp some of the tokens instead (product_mma64.h).
#pragma once

#include "codegen/device/product_rows.h"
#include "codegen/device/weights.h"

namespace mk {

template <u32 Count>
MK_INLINE void clear_sums(f32 (&sums)[Count]) {
  MK_UNROLL
  for (f32& sum : sums) sum = 0;
}

// An accumulator holds a lane's sums of one strip, for `tokens` tokens. All accumulators have these members.
//
// `Rows`: the activation rows this lane reads; `in.row_of` maps the group's tokens to them.
// `Operand`: this lane's activations of one k-step, shared by all strips of the block.
// load() reads the operand at column `col + ahead`.
// step() adds the products of one k-step.
// add_scaled() adds other sums, multiplied with scales of rows g and g + 8.
// scale() multiplies the sums with the scales of rows g and g + 8.
// store() writes the warp's sums.
//
// FmaF32 multiplies f32 weights by fused multiply-adds. The order of additions is the same for every
// `Tokens`.
template <u32 Tokens>
struct FmaF32 {
  static constexpr u32 tokens = Tokens;
  template <class In>
  struct Rows {
    const In& in;
    u32 token;
    MK_INLINE Rows(u32, const In& input, u32 first) : in(input), token(first) {}
  };
  struct Operand {
    f32x2 x[Tokens];
  };
  f32 sum[Tokens * 2];
  MK_INLINE void clear() { clear_sums(sum); }
  template <class In>
  MK_INLINE static Operand load(u32 lane, const Rows<In>& rows, u32 col, u32 ahead) {
    Operand o;
    MK_UNROLL
    for (u32 n = 0; n < Tokens; ++n)
      o.x[n] = rows.in.x.pair(rows.in.row_of(rows.token + n), col + ahead + lane % 4 * 2);
    return o;
  }
  MK_INLINE void step(u32x4 bits, const Operand& o) {
    MK_UNROLL
    for (u32 i = 0; i < Tokens * 2; ++i) {
      const u32 n = i / 2, r = i % 2;
      sum[i] = __builtin_fmaf(as_f32(bits[2 * r]), o.x[n][0], sum[i]);
      sum[i] = __builtin_fmaf(as_f32(bits[2 * r + 1]), o.x[n][1], sum[i]);
    }
  }
  MK_INLINE void store(u32 lane, AS3 f32* partial) const {
    MK_UNROLL
    for (u32 i = 0; i < Tokens * 2; ++i) {
      const f32 total = mk_quad_sum(sum[i]);
      if (lane % 4 == 0) partial[sum_place(i / 2 * kStripRows + i % 2 * 8 + lane / 4)] = total;
    }
  }
};

// Mma multiplies operands of type X by mma.m16n8k16. Each group of 8 tokens is one B operand; `Eights` counts
// them.
template <class X, u32 Eights = 1>
struct Mma {
  static constexpr u32 tokens = Eights * kMma8Tokens;
  template <class In>
  struct Rows {
    XRows x;
    u32 row[Eights];
    MK_INLINE Rows(u32 lane, const In& in, u32 first) : x(in.x) {
      MK_UNROLL
      for (u32 n = 0; n < Eights; ++n) row[n] = in.row_of(first + n * kMma8Tokens + lane / 4);
    }
  };
  struct Operand {
    u32x2 x[Eights];
  };
  f32 sum[Eights * 4];
  MK_INLINE void clear() { clear_sums(sum); }
  template <class In>
  MK_INLINE static Operand load(u32 lane, const Rows<In>& rows, u32 col, u32 ahead) {
    Operand o;
    MK_UNROLL
    for (u32 n = 0; n < Eights; ++n) o.x[n] = rows.x.template four<X>(rows.row[n], col + lane % 4 * 4, ahead);
    return o;
  }
  MK_INLINE void step(u32x4 bits, const Operand& o) {
    MK_UNROLL
    for (u32 n = 0; n < Eights; ++n) X::mma(sum + n * 4, bits, o.x[n][0], o.x[n][1]);
  }
  // step_e4m3() adds the products of two k-steps of 8-bit floats.
  MK_INLINE void step_e4m3(u32x4 bits, const Operand& o) {
    MK_UNROLL
    for (u32 n = 0; n < Eights; ++n)
      mk_mma_e4m3(sum + n * 4, bits[0], bits[1], bits[2], bits[3], o.x[n][0], o.x[n][1]);
  }
  // The product is one explicit fma. The assembler may otherwise fuse it with an addition behind it, in some
  // variants and not in others.
  MK_INLINE void scale(f32x2 by) {
    MK_UNROLL
    for (u32 i = 0; i < Eights * 4; ++i) sum[i] = __builtin_fmaf(sum[i], by[i % 4 / 2], 0.0f);
  }
  MK_INLINE void add_scaled(const Mma& of, f32x2 by) {
    MK_UNROLL
    for (u32 i = 0; i < Eights * 4; ++i) sum[i] = __builtin_fmaf(of.sum[i], by[i % 4 / 2], sum[i]);
  }
  // token_of() is the token of sum i. entry_of() is the index of sum i in [token][row].
  MK_INLINE static u32 token_of(u32 lane, u32 i) { return i / 4 * kMma8Tokens + lane % 4 * 2 + i % 2; }
  MK_INLINE static u32 entry_of(u32 lane, u32 i) {
    return token_of(lane, i) * kStripRows + i % 4 / 2 * 8 + lane / 4;
  }
  MK_INLINE void store(u32 lane, AS3 f32* to) const {
    MK_UNROLL
    for (u32 i = 0; i < Eights * 4; ++i) to[sum_place(entry_of(lane, i))] = sum[i];
  }
  // The store to global memory writes the first `there` tokens only.
  MK_INLINE void store(u32 lane, AS1 f32* to, u32 there) const {
    MK_UNROLL
    for (u32 i = 0; i < Eights * 4; ++i)
      if (token_of(lane, i) < there) to[entry_of(lane, i)] = sum[i];
  }
};

// at_index() calls use(i) for i == index, with i a constant. Registers have no run-time index, so each i
// below Count has its own copy of the code.
template <u32 Count, class Use>
MK_INLINE void at_index(u32 index, const Use& use) {
  MK_UNROLL
  for (u32 i = 0; i < Count; ++i)
    if (index == i) use(i);
}

// keep_copy() ends a short copy of code that at_index() makes, and names its index. LLVM would otherwise
// merge equal copies, and keep what they index in local memory.
MK_INLINE void keep_copy(u32 index) {
  asm volatile("" : : "r"(index));
}

// each_sum() calls done(i, sum) for the first `count` of a warp's sums; `count` is at most Count. `sum` is
// set on every path. PTX has no undef: a value left unset on one path stays live through the whole kernel.
template <class Accumulator, u32 Count, class Done>
MK_INLINE void each_sum(const Accumulator (&sums)[Count], u32 count, const Done& done) {
  MK_ROLLED
  for (u32 i = 0; i < count; ++i) {
    Accumulator sum = sums[Count - 1];
    at_index<Count - 1>(i, [&](u32 s) { sum = sums[s]; });
    done(i, sum);
  }
}

// TileKSlices locates the columns of each K slice in the tiles of a strip.
template <class W>
struct TileKSlices {
  static constexpr u32 step_cols = W::row.step_cols;
  static constexpr u32 full_cols = W::row.tile_cols / kKSlices;
  static constexpr u32 full_steps = full_cols / step_cols;
  // load() reads the operands of a K slice's `steps` k-steps in one tile. Operands beyond `steps` repeat the
  // first one, because the row may end there.
  template <class Accumulator, class Rows>
  MK_INLINE static void load(u32 lane, const Rows& rows, u32 col, u32 steps,
                             typename Accumulator::Operand (&to)[full_steps]) {
    if (steps == full_steps) {
      MK_UNROLL
      for (u32 i = 0; i < full_steps; ++i) to[i] = Accumulator::load(lane, rows, col, i * step_cols);
      return;
    }
    MK_UNROLL
    for (u32 i = 0; i < full_steps; ++i)
      to[i] = Accumulator::load(lane, rows, col + (i < steps ? i * step_cols : 0), 0);
  }
  MK_INLINE static u32 steps(const ProductArgs& a, u32 tile) {
    return tile + 1 == a.tiles ? a.tail_cols / kKSlices / step_cols : full_steps;
  }
  // words_at() is where k-step `step` of tile slice `tile_slice` begins in a stage of tile slices, each of
  // `steps` k-steps. Tile slices have the scales of their groups behind their k-steps. Those of the last tile
  // have the rows' scales behind these.
  MK_INLINE static u32 words_at(const ProductArgs& a, u32 tile, u32 steps, u32 tile_slice, u32 step) {
    u32 words = (tile_slice * steps + step) * kWarpLanes + tile_slice * row_scales_at(steps);
    return W::scaled && tile + 1 == a.tiles ? words + tile_slice * W::scale_words : words;
  }
  // row_scales_at() is where the rows' scales begin behind the k-steps of a tile slice.
  MK_INLINE static u32 row_scales_at(u32 steps) {
    return W::grouped ? steps / W::group_steps * W::group_words : 0;
  }
  // group() reads what the lane needs of a group. `behind` is the end of a tile slice's k-steps.
  MK_INLINE static Group group(u32 lane, AS3 const typename W::Words* behind, u32 group) {
    return W::group(lane, behind + group * W::group_words);
  }
  // scales() reads the scales of the lane's rows. `behind` is the end of the `steps` k-steps of a tile slice
  // of the last tile.
  MK_INLINE static f32x2 scales(u32 lane, AS3 const typename W::Words* behind, u32 steps) {
    AS3 const f32* rows = (AS3 const f32*)(behind + row_scales_at(steps)) + lane / 4;
    return {rows[0], rows[kStripRows / 2]};
  }
  MK_INLINE static u32 col(const ProductArgs& a, u32 k_slice, u32 tile) {
    return k_slice * ((a.tiles - 1) * full_cols + a.tail_cols / kKSlices) + tile * full_cols;
  }
};
static_assert(kKSlices == kConsumerWarps);

// WarpKSlice is one warp's work in a block: its K slice and its strips. Each tile of the block fills `stages`
// ring stages. The first `strips` of these stages hold a strip for this warp.
//
// Without split_k each warp has a K slice of its own, and a stage holds one strip. A task of a product with
// split_k = p covers 8 / p K slices, and a stage holds p strips. Each K slice then has p warps, one for each
// strip of the stage.
struct WarpKSlice {
  u32 k_slice, stages, strips;
  MK_INLINE WarpKSlice(const Worker& w, const ProductArgs& a, const StripBlock& block) {
    const u32 parts = split_k(a), shift = split_shift(a), k_slices = kKSlices >> shift;
    k_slice = block.part(a) * k_slices + (w.warp() & (k_slices - 1));
    stages = (block.strips + parts - 1) >> shift;
    strips = (block.strips - min(block.strips, strip_in_stage(w, a)) + parts - 1) >> shift;
  }
  // strip_in_stage() is the index of the warp's strip in a stage.
  MK_INLINE static u32 strip_in_stage(const Worker& w, const ProductArgs& a) {
    return w.warp() >> (__builtin_ctz(kKSlices) - split_shift(a));
  }
};

// add_groups() adds the products of one strip and one tile slice to the warp's sums, group by group. `stage`
// is where the lane's words begin, and `mine` the k-steps that the warp has of `steps`. operand(i) is what
// k-step i is multiplied with, and used(i) follows its last use.
template <class W, class Accumulator, u32 Stages, class Operand, class Used>
MK_INLINE void add_groups(u32 lane, AS3 const typename W::Words* stage, u32 steps, u32 mine, u32 strip,
                          Accumulator (&sums)[Stages], const Operand& operand, const Used& used) {
  using Shape = TileKSlices<W>;
  MK_UNROLL
  for (u32 group = 0; group < Shape::full_steps / W::group_steps; ++group) {
    if (group * W::group_steps >= mine) continue;
    Accumulator of;
    of.clear();
    const Group with = Shape::group(lane, stage - lane + steps * kWarpLanes, group);
    MK_UNROLL
    for (u32 i = group * W::group_steps; i < (group + 1) * W::group_steps; ++i) {
      of.step(W::unpack(stage[i * kWarpLanes], with), operand(i));
      used(i);
    }
    at_index<Stages>(strip, [&](u32 s) {
      sums[s].add_scaled(of, with.scales);
      keep_copy(s);
    });
  }
}

// scale_rows() multiplies a strip's sums with the scales of its rows, if the format has any.
template <class W, class Accumulator, u32 Stages>
MK_INLINE void scale_rows(u32 lane, AS3 const typename W::Words* stage, u32 steps, u32 strip,
                          Accumulator (&sums)[Stages]) {
  if constexpr (W::scaled) {
    const f32x2 scales = TileKSlices<W>::scales(lane, stage - lane + steps * kWarpLanes, steps);
    at_index<Stages>(strip, [&](u32 s) {
      sums[s].scale(scales);
      keep_copy(s);
    });
  }
}

}  // namespace mk
