// Product of a block of strips with all rows of a step, or with the rows of one expert. Each group of tokens
// is drained from the ring and goes through the epilogue. A task of a split product writes its K slices' sums
// to memory instead. mkb_split_k_reduce() adds all K slices of a strip and runs the epilogue.
#pragma once

#include "codegen/device/epilogue.h"
#include "codegen/device/product_mma32.h"
#include "codegen/device/product_mma64.h"
#include "codegen/device/product_mma8.h"
#include "codegen/device/product_wgmma.h"

namespace mk {

MK_INLINE bool gathers_rows(const ProductArgs& a) {
  return may_have(a, kGatherPart) && a.epilogue->gather_rows;
}

// ProductInput maps tokens to rows of x: to the row of the same number, or by the list `gathered`.
struct ProductInput {
  XRows x;
  AS3 const uint8_t* gathered;
  MK_INLINE ProductInput(const Worker& w, const ProductArgs& a)
      : x{a, ProductScratch(w).scale}, gathered(ProductScratch(w).gathered) {}
  MK_INLINE u32 row_of(u32 token) const {
    if (token >= x.a.tokens) return kNoRow;
    return x.a.gather_expert_rows || gathers_rows(x.a) ? gathered[token] : token;
  }
  MK_INLINE f32 missing_scale(u32 token) const { return x.missing_scale(row_of(token)); }
};

// inverse_rms() is 1 / the root mean square of a row, from its sum of squares.
MK_INLINE f32 inverse_rms(const ProductArgs& a, f32 sum_squares) {
  return mk_rsqrt(sum_squares / (f32)a.cols + a.epilogue->eps);
}
// store_scale() is called by one warp, whose lanes hold parts of the row's sum of squares.
MK_INLINE void store_scale(const Worker& w, const ProductArgs& a, u32 x_row, f32 sum_squares) {
  const f32 sum = mk_warp_sum(sum_squares);
  if (w.lane() == 0) ProductScratch(w).scale[x_row] = inverse_rms(a, sum);
}

// Sums is a rectangle of sums: `strips` strips from `strip` on, and `tokens` tokens from `first` on. `Strips`
// is a power of 2, the most strips. The worker's partial sums have room for all of it. The threads take the
// sums token by token, so that steps of few tokens need one round.
template <u32 Strips>
struct Sums {
  u32 strip, strips, first, tokens;
  MK_INLINE static u32 strip_in_block(u32 entry) { return entry / kStripRows % Strips; }
  MK_INLINE static u32 token_in_group(u32 entry) { return entry / kStripRows / Strips; }
  // place_of() is the index of an entry in [strip of the block][token of the group][row].
  MK_INLINE u32 place_of(u32 entry) const {
    return (strip_in_block(entry) * tokens + token_in_group(entry)) * kStripRows + entry % kStripRows;
  }
  // each() calls visit(round, entry, strip, token, row, there) for each entry of this thread. `there` is
  // false for entries that do not exist. Rounds without an entry are left out.
  template <u32 Rounds, class Visit>
  MK_INLINE void each(const Worker& w, const ProductArgs& a, const Visit& visit) const {
    MK_UNROLL
    for (u32 round = 0; round < Rounds; ++round) {
      if (round > 0 && first + token_in_group(round * kConsumerThreads) >= a.tokens) continue;
      const u32 entry = round * kConsumerThreads + w.thread, token = first + token_in_group(entry);
      visit(round, entry, strip + strip_in_block(entry), token, entry % kStripRows,
            strip_in_block(entry) < strips && token_in_group(entry) < tokens && token < a.tokens);
    }
  }
};

// ThreadEpilogueOperands holds the epilogue operands of one thread's entries, for at most `Max` sums of the
// worker. load() issues their loads.
template <u32 Max>
struct ThreadEpilogueOperands {
  static constexpr u32 rounds = (Max + kConsumerThreads - 1) / kConsumerThreads;
  EpilogueOperands of[rounds];
  template <u32 Strips>
  MK_INLINE void load(const Worker& w, const ProductArgs& a, const Sums<Strips>& sums) {
    sums.template each<rounds>(w, a, [&](u32 round, u32, u32 strip, u32 token, u32 row, bool there) {
      of[round] = load_epilogue_operands(a, strip, token, row, there);
    });
  }
};

// SumSquares adds the partial sums of squares of x, in steps of up to 8 tokens. Each of the last `tokens`
// warps has one row, because the first warps load epilogue operands. load() issues loads beside those of the
// block's activations, and store() adds the values behind the block.
struct SumSquares {
  f32 part[8] = {};
  MK_INLINE void load(const Worker& w, const ProductArgs& a, const ProductInput& in) {
    if (!has_row(w, a)) return;
    AS1 const f32* from = row(w, a, in) + w.lane();
    const u32 parts = a.epilogue->sumsq_partials;
    MK_UNROLL
    for (u32 i = 0; i < 8; ++i)
      if (w.lane() + i * kWarpLanes < parts) part[i] = from[i * kWarpLanes];
  }
  // store() adds in the order of mkb_product_squares(), so the bits are the same.
  MK_INLINE void store(const Worker& w, const ProductArgs& a, const ProductInput& in) const {
    if (!has_row(w, a)) return;
    f32 sum = 0;
    MK_UNROLL
    for (f32 p : part) sum += p;
    for (u32 at = w.lane() + 8 * kWarpLanes; at < a.epilogue->sumsq_partials; at += kWarpLanes)
      sum += row(w, a, in)[at];
    store_scale(w, a, in.row_of(token_of(w)), sum);
  }

 private:
  MK_INLINE static u32 token_of(const Worker& w) { return kConsumerWarps - 1 - w.warp(); }
  MK_INLINE static bool has_row(const Worker& w, const ProductArgs& a) {
    return a.x_bf16 && a.x_rows <= kMma8Tokens && token_of(w) < a.tokens && a.epilogue->sumsq_partials != 0;
  }
  MK_INLINE static AS1 const f32* row(const Worker& w, const ProductArgs& a, const ProductInput& in) {
    return a.epilogue->sum_squares + in.row_of(token_of(w)) * a.epilogue->sumsq_partials;
  }
};

// BlockLoads has the loads of a block that its epilogue needs, and that drain_mma8() issues.
template <class BlockSums, u32 Max>
struct BlockLoads {
  const Worker& w;
  const ProductInput& in;
  const BlockSums& sums;
  ThreadEpilogueOperands<Max> operands = {};
  SumSquares sum_squares = {};
  MK_INLINE void load() {
    operands.load(w, in.x.a, sums);
    sum_squares.load(w, in.x.a, in);
  }
  MK_INLINE void use() const { sum_squares.store(w, in.x.a, in); }
};

// store_part() writes the warp's sums of its i-th strip (WarpKSlice) to global memory.
template <class Accumulator>
MK_INLINE void store_part(const Worker& w, const ProductArgs& a, const StripBlock& block, u32 i,
                          const Accumulator& sums) {
  const u32 strip = block.strip(a) + i * split_k(a) + WarpKSlice::strip_in_stage(w, a);
  sums.store(w.lane(), sums_of(a, strip, WarpKSlice(w, a, block).k_slice, 0), a.tokens);
}

// epilogue_of_sums() adds the sums that all warps have stored from `partial` on, and runs the epilogue.
template <u32 Strips, u32 Max>
MK_INLINE void epilogue_of_sums(const Worker& w, const ProductInput& in, const Sums<Strips>& sums,
                                const ThreadEpilogueOperands<Max>& operands, AS3 const f32* partial) {
  constexpr u32 rounds = ThreadEpilogueOperands<Max>::rounds;
  const ProductScratch s(w);
  const ProductArgs& a = in.x.a;
  consumer_barrier();
  sums.template each<rounds>(w, a, [&](u32 round, u32 entry, u32 strip, u32 token, u32 row, bool there) {
    f32 v = 0;
    if (there)
      v = epilogue(a, strip, token, row, in.missing_scale(token), operands.of[round],
                   [&](u32 r) { return sum_over_warps(partial, sums.place_of(entry) - row + r); });
    if (there && keeps_best(a)) s.value[entry] = v;
    store_norm_outputs(a, strip, token, row, there, operands.of[round].norm, v);
  });
  if (!keeps_best(a)) return;
  consumer_barrier();
  const u32 entry = w.thread * kStripRows, token = sums.first + sums.token_in_group(entry),
            of_block = sums.strip_in_block(entry);
  if (of_block < sums.strips && sums.token_in_group(entry) < sums.tokens && token < a.tokens)
    keep_best(a, sums.strip + of_block, token, [&](u32 row) { return s.value[entry + row]; });
}

// multiply() serves Mma8 and f32 weights. multiply() drains a block's stages and runs the epilogue once for
// each group of Accumulator::tokens tokens.
template <class W, class Accumulator, u32 Strips>
MK_INLINE void multiply(Worker& w, const ProductInput& in, const StripBlock& block) {
  constexpr u32 max = Accumulator::tokens * kStripRows;
  static_assert(Strips * max <= kBlockSums);
  const ProductArgs& a = in.x.a;
  AS3 f32* partial = ProductScratch(w).partial;
  const WarpKSlice share(w, a, block);
  for (u32 first = 0; first < a.tokens; first += Accumulator::tokens) {
    if (first > 0) consumer_barrier();
    const Sums<Strips> sums{block.strip(a), block.strips, first, Accumulator::tokens};
    BlockLoads<Sums<Strips>, Strips * max> loads{w, in, sums};
    drain_mma8<W, Accumulator, Strips>(w, a, in, first, share, loads, [&](u32 i, const Accumulator& acc) {
      if constexpr (W::matrix)
        if (is_split(a)) return i < share.strips ? store_part(w, a, block, i, acc) : void();
      acc.store(w.lane(), partial + w.warp() * kBlockSums + i * max);
    });
    if (is_split(a)) return;
    epilogue_of_sums(w, in, sums, loads.operands, partial);
  }
}

// multiply_mma32() serves Mma32, for up to `Tokens` tokens. The scratch has room for the sums of one strip
// only. Each thread runs the epilogue for one sum of that strip at a time. Formats with groups are drained
// strip by strip, since a group has sums of its own.
template <class W, u32 Tokens, u32 Strips>
MK_INLINE void multiply_mma32(Worker& w, const ProductInput& in, const StripBlock& block) {
  using Accumulator = Mma<typename W::X, Tokens / kMma8Tokens>;
  constexpr u32 at_once = kConsumerThreads / kStripRows;
  static_assert(Tokens * kStripRows <= kBlockSums);
  const ProductArgs& a = in.x.a;
  AS3 f32* partial = ProductScratch(w).partial;
  const WarpKSlice share(w, a, block);
  const auto done = [&](u32 i, const Accumulator& acc) {
    if (is_split(a)) return store_part(w, a, block, i, acc);
    if (i > 0) consumer_barrier();
    acc.store(w.lane(), partial + w.warp() * kBlockSums);
    MK_ROLLED
    for (u32 token = 0; token < a.tokens; token += at_once) {
      const Sums<1> sums{block.strip(a) + i, 1, token, at_once};
      ThreadEpilogueOperands<kConsumerThreads> operands;
      operands.load(w, a, sums);
      epilogue_of_sums(w, in, sums, operands, partial + token * kStripRows);
    }
  };
  if constexpr (W::grouped)
    drain_groups<W, Accumulator, Strips>(w, a, in, share, done);
  else
    drain_mma32<W, Accumulator, Strips>(w, a, in, share, done);
}

// warp_epilogue() runs the epilogue on one strip's sums [Tokens][row], for the tokens from `first` on.
// `sums` belongs to this warp alone, so warp barriers suffice.
template <u32 Tokens>
MK_INLINE void warp_epilogue(const Worker& w, const ProductArgs& a, const ProductInput& in, u32 strip,
                             u32 first, AS3 f32* sums) {
  mk_warp_sync();
  MK_ROLLED
  for (u32 entry = w.lane(); entry < Tokens * kStripRows; entry += kWarpLanes) {
    const u32 row = entry % kStripRows, token = first + entry / kStripRows;
    const bool there = token < a.tokens;
    const EpilogueOperands operands = load_epilogue_operands(a, strip, token, row, there);
    f32 v = 0;
    if (there)
      v = epilogue(a, strip, token, row, in.missing_scale(token), operands,
                   [&](u32 r) { return sums[sum_place(entry - row + r)]; });
    if (there && keeps_best(a)) sums[sum_place(entry)] = v;
    store_norm_outputs(a, strip, token, row, there, operands.norm, v);
  }
  mk_warp_sync();
  if (!keeps_best(a)) return;
  if (w.lane() < Tokens && first + w.lane() < a.tokens)
    keep_best(a, strip, first + w.lane(),
              [&](u32 row) { return sums[sum_place(w.lane() * kStripRows + row)]; });
  mk_warp_sync();
}

// multiply_mma64() serves Mma64, for blocks and passes of Share (Mma64Share). Each warp runs the epilogue for
// its own tokens. Fp8: activations are 8-bit floats.
template <class W, class Share, bool Fp8 = false>
MK_INLINE void multiply_mma64(Worker& w, const ProductInput& in, const StripBlock& block) {
  const ProductArgs& a = in.x.a;
  AS3 f32* sums = ProductScratch(w).partial + w.warp() * kSumTokens * kStripRows;
  MK_ROLLED
  for (u32 pass = 0; pass < a.tokens; pass += Share::pass_tokens) {
    if (pass > 0) consumer_barrier();
    drain_mma64<W, Share, Fp8>(
        w, a, in, pass, block, sums,
        [&](u32 k_slice, u32 of_block, u32 first, const Mma<typename W::X, kSumTokens / kMma8Tokens>& part) {
          part.store(w.lane(), sums_of(a, block.strip(a) + of_block, k_slice, first), a.tokens - first);
        },
        [&](u32 of_block, u32 first) {
          warp_epilogue<kSumTokens>(w, a, in, block.strip(a) + of_block, first, sums);
        });
  }
}

// multiply_wgmma() serves Wgmma128, in passes of up to Tokens tokens. Split products never come here. X is
// the type of activations.
template <class W, class X, u32 Tokens>
MK_INLINE void multiply_wgmma(Worker& w, const ProductInput& in, const StripBlock& block) {
  const ProductArgs& a = in.x.a;
  AS3 f32* sums = ProductScratch(w).partial + w.warp() * kMma8Tokens * kStripRows;
  MK_ROLLED
  for (u32 pass = 0; pass < a.tokens; pass += Tokens)
    drain_wgmma<W, X, Tokens>(w, a, in, pass, block.strips, sums, [&](u32 of_block, u32 first) {
      warp_epilogue<kMma8Tokens>(w, a, in, block.strip(a) + of_block, first, sums);
    });
}

// multiply_by_warpgroups() picks the passes of Wgmma128. A kernel has one kind of them.
template <class W, class X>
MK_INLINE void multiply_by_warpgroups(Worker& w, const ProductInput& in, const StripBlock& block) {
  if (wgmma_tokens(in.x.a.max_tokens) == kHalfTokens) return multiply_wgmma<W, X, kHalfTokens>(w, in, block);
  multiply_wgmma<W, X, kWgmmaTokens>(w, in, block);
}

template <class W, bool Expert = false>
MK_INLINE void multiply_strips(Worker& w, const ProductInput& in, const StripBlock& block) {
  const ProductArgs& a = in.x.a;
  const u32 tokens = a.tokens;
  __builtin_assume(tokens <= a.max_tokens);  // leaves out variants that the grid never takes
  if constexpr (!W::matrix) {
    if (tokens == 1) return multiply<W, FmaF32<1>, 1>(w, in, block);
    multiply<W, FmaF32<kFmaTokens>, 1>(w, in, block);
  } else {
    constexpr bool wide = has_wide_warps(W::type, kMma64Strips, Expert);
    using Wide = Mma64Share<kMma64Strips, kMma64Tokens, wide>;
    using Narrow = Mma64Share<kBlockStrips>;
    const ProductVariant variant =
        product_variant(tokens, W::type, Expert ? kExpert : block.strips, is_split(a) ? 0 : a.wgmma_from);
    if (variant == ProductVariant::kMma8) return multiply<W, Mma<typename W::X>, kBlockStrips>(w, in, block);
    if constexpr (W::e4m3 && !Expert)
      if (a.fp8_from != 0 && tokens >= a.fp8_from) {
        if (a.mma64_strips == kMma64Strips)
          return multiply_mma64<W, Mma64Share<kMma64Strips>, true>(w, in, block);
        return multiply_mma64<W, Narrow, true>(w, in, block);
      }
    if constexpr (!Expert)
      if (variant == ProductVariant::kMma32) {
        if constexpr (!W::grouped)
          if (tokens > kMma16Tokens) return multiply_mma32<W, kMma32Tokens, kMma32Strips>(w, in, block);
        return multiply_mma32<W, kMma16Tokens, kBlockStrips>(w, in, block);
      }
    if constexpr (!Expert && W::by_warpgroups) {
      if (variant == ProductVariant::kWgmma128) {
        if constexpr (W::e4m3)
          if (a.has_codes) return multiply_by_warpgroups<W, E4m3>(w, in, block);
        return multiply_by_warpgroups<W, typename W::X>(w, in, block);
      }
      if (!is_split(a) && a.wgmma_from == kMma32Tokens + 1)
        return multiply_mma64<W, Mma64Share<kMma64Strips, kMma32Tokens, wide>>(w, in, block);
    }
    if constexpr (!Expert)
      if (a.mma64_strips == kMma64Strips) return multiply_mma64<W, Wide>(w, in, block);
    multiply_mma64<W, Narrow>(w, in, block);
  }
}

// multiply_tasks() multiplies consecutive tasks of a product. The tasks of a split product are all strips of
// one part, then all strips of the next part.
template <class W>
MK_INLINE void multiply_tasks(Worker& w, const ProductArgs& a, u32 task, u32 strips) {
  const ProductArgs args = laundered(a);
  multiply_strips<W>(w, ProductInput(w, args), {task, strips});
}

}  // namespace mk
