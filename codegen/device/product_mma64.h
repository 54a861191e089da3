// Mma64: products of many tokens, up to 64 per pass. The activations of a tile slice are copied
// to shared memory once for all strips of a block. Each consumer warp multiplies some of the tokens with some
// of the strips: 16 tokens, or 32 where weights have groups. Such a warp unpacks a weight once for 32 tokens.
//
// A lane sums one K slice in its accumulators and then adds that sum to its total. Mma8 adds the K slices of
// its warps in the same order, so the bits are the same.
#pragma once

#include "codegen/device/product_fp8.h"

namespace mk {

constexpr u32 kRowBytes = 128;  // bytes of one token: its columns in one tile slice
constexpr u32 kRowChunks = kRowBytes / kChunkBytes;
constexpr u32 kStepCols = 16;  // columns of a k-step of matrix instructions
constexpr u32 kMma64ActivationBytes = kMma64Tokens * kRowBytes;
static_assert(kFp8Chunks == kRowChunks && kMma64Tokens * (kFp8Cols + sizeof(f32)) <= kMma64ActivationBytes);
static_assert(2 * kMma64ActivationBytes <= kPartials * sizeof(f32));

// Chunks is one thread's share of the copy to shared memory: one 16-byte chunk of each of `count` tokens. X
// is the type of a column.
template <u32 Tokens, class X>
struct Chunks {
  static constexpr u32 row_chunks = kFp8Cols * X::bytes / kChunkBytes, cols = kChunkBytes / X::bytes;
  static constexpr u32 count = Tokens * row_chunks / kConsumerThreads;
  static constexpr u32 apart = kConsumerThreads / row_chunks;  // tokens from one chunk to the thread's next
  XRows x;
  u32 row[count];
  u32x4 bits[count];

  template <class In>
  MK_INLINE Chunks(const Worker& w, const In& in, u32 first) : x(in.x) {
    MK_UNROLL
    for (u32 i = 0; i < count; ++i) row[i] = in.row_of(first + token(w) + i * apart);
  }
  // load() reads the thread's chunks of `steps` k-steps from column `col` on. Chunks beyond `steps` repeat
  // the first one, because the row may end there.
  MK_INLINE void load(const Worker& w, u32 col, u32 steps) {
    const u32 at = w.thread % row_chunks * cols;
    MK_UNROLL
    for (u32 i = 0; i < count; ++i)
      bits[i] = x.template chunk<X>(row[i], col + (at < steps * kStepCols ? at : 0));
  }
  // each() calls store(token, chunk, bits) for each chunk of the thread.
  template <class Store>
  MK_INLINE void each(const Worker& w, const Store& store) const {
    MK_UNROLL
    for (u32 i = 0; i < count; ++i) store(token(w) + i * apart, w.thread % row_chunks, bits[i]);
  }

 private:
  // token() is the token of the thread's first chunk. Eight lanes store 128 bytes at a time. Rows of codes
  // are half as long, so lanes take tokens t and t + 4, whose swizzled chunks share no bank.
  MK_INLINE static u32 token(const Worker& w) {
    if (row_chunks == kRowChunks) return w.thread / kRowChunks;
    return w.thread / kWarpLanes * 8 + w.thread / 4 % 2 * 4 + w.thread / 8 % 4;
  }
};

// Mma64Share is one warp's work in a pass over `strips` strips, at most Strips of them. A pass has at most
// Tokens tokens. The warp multiplies tokens [token, token + warp_tokens) of the pass. The warp's strips are
// first, first + apart, ... (`count` strips). Each sum of the warp is for 16 tokens of a strip. Wide: a warp
// may have 32 tokens, and its strips have two such sums, one after the other.
template <u32 Strips, u32 Tokens = kMma64Tokens, bool Wide = false>
struct Mma64Share {
  static constexpr u32 pass_tokens = Tokens, sums_of_strip = Wide ? kWarpTokens / kSumTokens : 1;
  static constexpr u32 max_sums = Strips * Tokens / kSumTokens / kConsumerWarps;
  static constexpr u32 max_strips = max_sums / sums_of_strip;
  u32 warp_tokens, token, first, apart, count;
  MK_INLINE Mma64Share(const Worker& w, u32 tokens, u32 strips) {
    warp_tokens = mma64_warp_tokens(Wide, tokens, strips);
    const u32 groups = warp_groups(tokens, warp_tokens);
    token = w.warp() % groups * warp_tokens;
    first = w.warp() / groups;
    apart = kConsumerWarps / groups;
    count = token < tokens && first < strips ? (strips - first + apart - 1) / apart : 0;
  }
  // sums() is how many sums the warp has. A warp of 16 tokens of a Wide share has one strip.
  MK_INLINE u32 sums() const { return count * (warp_tokens / kSumTokens); }
  // strip_of() is the strip of the block that sum i belongs to. token_of() is the first of its tokens.
  MK_INLINE u32 strip_of(u32 i) const { return first + i / sums_of_strip * apart; }
  MK_INLINE u32 token_of(u32 i) const { return token + i % sums_of_strip * kSumTokens; }
};

// SharedActivations is one of two buffers for activations, which take turns. Tokens have consecutive rows of
// 128 bytes. Chunk i of token t lies at index i ^ t % 4 * 2. Neither the stores nor the operand loads have
// bank conflicts in this order.
struct SharedActivations {
  AS3 char* base;
  MK_INLINE SharedActivations(const Worker& w, u32 turn)
      : base((AS3 char*)ProductScratch(w).partial + turn % 2 * kMma64ActivationBytes) {}
  MK_INLINE AS3 char* at(u32 token, u32 chunk) const {
    return base + token * kRowBytes + (chunk ^ token % 4 * 2) * kChunkBytes;
  }
  // operand() is a lane's B operand of one k-step, for 16 tokens.
  template <class X>
  MK_INLINE typename Mma<X, kSumTokens / kMma8Tokens>::Operand operand(u32 lane, u32 token, u32 step) const {
    typename Mma<X, kSumTokens / kMma8Tokens>::Operand o;
    MK_UNROLL
    for (u32 n = 0; n < kSumTokens / kMma8Tokens; ++n)
      o.x[n] = *(AS3 const u32x2*)(at(token + n * kMma8Tokens + lane / 4, step * 2 + lane % 4 / 2) +
                                   lane % 2 * (kChunkBytes / 2));
    return o;
  }
};

// Mma64Rows is what a warp multiplies between two barriers: `steps` k-steps of a tile from k-step `first` on,
// by the activations in shared memory. words(s) is where the k-steps of the warp's strip s begin.
template <class W, class Share>
struct Mma64Rows {
  using X = typename W::X;
  using Words = typename W::Words;
  using Sums = Mma<X, kSumTokens / kMma8Tokens>;
  using All = Sums[Share::max_sums];
  static constexpr u32 sums_of_strip = Share::sums_of_strip;
  // k-steps of a row of shared memory. A tile slice has them once or more often.
  static constexpr u32 row_steps = kRowBytes / X::bytes / TileKSlices<W>::step_cols;
  const Share& share;
  SharedActivations rows;
  u32 lane, first, steps;

  // operand() is what sum i of a strip is multiplied with.
  MK_INLINE typename Sums::Operand operand(u32 step, u32 i = 0) const {
    return rows.template operand<X>(lane, share.token + i * kSumTokens, step);
  }
  // multiply() adds the products of all strips. Each operand is read once.
  template <class At>
  MK_INLINE void multiply(const At& words, All& sums) const {
    static_assert(sums_of_strip == 1);
    MK_UNROLL
    for (u32 i = 0; i < row_steps; ++i) {
      if (i >= steps) continue;
      const typename Sums::Operand x = operand(i);
      MK_UNROLL
      for (u32 s = 0; s < Share::max_strips; ++s) {
        if (s >= share.count) continue;
        sums[s].step(W::unpack(words(s)[(first + i) * kWarpLanes + lane]), x);
      }
    }
  }
  // multiply_groups() multiplies one strip at a time, whose groups need sums of their own. Operands are read
  // again for each strip. behind(s) is the end of the k-steps of strip s.
  template <class At, class Behind>
  MK_INLINE void multiply_groups(const At& words, const Behind& behind, All& sums) const {
    if constexpr (sums_of_strip > 1)
      if (share.warp_tokens == kSumTokens && share.count != 0)
        return multiply_strip<1>(words(0), behind(0), sums);
    MK_UNROLL
    for (u32 s = 0; s < Share::max_strips; ++s)
      if (s < share.count) multiply_strip<sums_of_strip>(words(s), behind(s), sums + s * sums_of_strip);
  }

 private:
  // multiply_strip() adds the products of a strip to its first Count sums. Each weight is unpacked once.
  template <u32 Count>
  MK_INLINE void multiply_strip(AS3 const Words* words, AS3 const Words* behind, Sums* sums) const {
    MK_ROLLED
    for (u32 begin = 0; begin < steps; begin += W::group_steps) {
      Sums of[Count];
      MK_UNROLL
      for (Sums& sum : of) sum.clear();
      const Group with = TileKSlices<W>::group(lane, behind, (first + begin) / W::group_steps);
      MK_UNROLL
      for (u32 step = begin; step < begin + W::group_steps; ++step) {
        const u32x4 weights = W::unpack(words[(first + step) * kWarpLanes + lane], with);
        MK_UNROLL
        for (u32 i = 0; i < Count; ++i) of[i].step(weights, operand(step, i));
      }
      MK_UNROLL
      for (u32 i = 0; i < Count; ++i) sums[i].add_scaled(of[i], with.scales);
    }
  }
};

// drain_k_slices() drains a block's stages for the pass that begins at token `pass`. The loop takes the K
// slices of the block's part one after the other. each(k_slice, sums) receives the sums of one K slice, all
// that a share may have. Fp8: activations become 8-bit floats on their way to shared memory.
template <class W, bool Fp8, class Share, class In, class Each>
MK_INLINE void drain_k_slices(Worker& w, const ProductArgs& a, const In& in, u32 pass,
                              const StripBlock& block, const Share& share, const Each& each) {
  using X = typename W::X;
  using Words = typename W::Words;
  using Rows = Mma64Rows<W, Share>;
  using Shape = TileKSlices<W>;
  constexpr u32 row_steps = Rows::row_steps;
  static_assert(Shape::full_steps % row_steps == 0 && row_steps % W::group_steps == 0);
  const u32 strips = block.strips, together = mma64_tiles(strips), tiles = a.tiles;
  const u32 k_slices = kKSlices >> split_shift(a), first = block.part(a) * k_slices,
            last = first + k_slices - 1;
  Chunks<Share::pass_tokens, X> x(w, in, pass);
  const auto load = [&](u32 k_slice, u32 tile, u32 step) {
    x.load(w, Shape::col(a, k_slice, tile) + step * Shape::step_cols, Shape::steps(a, tile) - step);
  };
  load(first, 0, 0);
  u32 turn = 0, taken = 0;  // `turn`: rows of activations so far; `taken`: tiles of the current stage
  MK_ROLLED
  for (u32 k_slice = first; k_slice <= last; ++k_slice) {
    typename Rows::All sums;
    MK_UNROLL
    for (auto& sum : sums) sum.clear();
    AS3 const Words* stage = nullptr;
    MK_ROLLED
    for (u32 tile = 0; tile < tiles; ++tile) {
      const u32 steps = Shape::steps(a, tile);
      const bool ends = tile + 1 == tiles;
      const auto words_of = [&](u32 s, u32 step) {
        return stage + Shape::words_at(a, tile, steps, share.first + s * share.apart, step);
      };
      u32 step = 0;
      bool more;
      MK_ROLLED
      do {
        const SharedActivations rows(w, turn++);
        const Fp8Activations codes{rows.base};
        if constexpr (Fp8)
          codes.store(w, x);
        else
          x.each(w, [&](u32 token, u32 chunk, u32x4 bits) { *(AS3 u32x4*)rows.at(token, chunk) = bits; });
        consumer_barrier();
        // The next activations load while these are multiplied. The very last ones load their K slice's first
        // ones again, which nobody uses.
        more = Shape::full_steps > row_steps && step + row_steps < steps;
        load(more || !ends ? k_slice : min(k_slice + 1, last),
             more   ? tile
             : ends ? 0
                    : tile + 1,
             more ? step + row_steps : 0);
        if (taken == 0 && step == 0) stage = (AS3 const Words*)acquire_stage(w);
        const auto words = [&](u32 s) { return words_of(s, 0); };
        const Rows here{share, rows, w.lane(), step, min(steps - step, row_steps)};
        if constexpr (Fp8) {
          const Fp8Operands<typename Rows::Sums> operands(codes, w.lane(), share.token);
          MK_UNROLL
          for (u32 s = 0; s < Share::max_strips; ++s) {
            if (s >= share.count) continue;
            multiply_fp8<W>(w.lane(), steps, operands, words(s), sums[s]);
          }
        } else if constexpr (W::grouped) {
          here.multiply_groups(words, [&](u32 s) { return words_of(s, steps); }, sums);
        } else {
          here.multiply(words, sums);
        }
        step += row_steps;
      } while (more);
      if constexpr (W::scaled) {
        MK_UNROLL
        for (u32 i = 0; i < Share::max_sums; ++i) {
          const u32 s = i / Share::sums_of_strip;
          if (ends && s < share.count) sums[i].scale(Shape::scales(w.lane(), words_of(s, steps), steps));
        }
      }
      stage += Shape::words_at(a, tile, steps, strips, 0);
      if (++taken != together && !ends) continue;
      release_stage(w);
      taken = 0;
    }
    each(k_slice, sums);
  }
}

// drain_mma64() drains a block's stages for the pass that begins at token `pass`. A split product calls
// leave(k_slice, strip, token, sums) for each strip of the warp and each K slice of the part. Other products
// store a strip's sums to `sums` [16 tokens][row] (sum_place) and call done(strip, token). `sums` belongs to
// this warp alone.
template <class W, class Share, bool Fp8, class In, class Leave, class Done>
MK_INLINE void drain_mma64(Worker& w, const ProductArgs& a, const In& in, u32 pass, const StripBlock& block,
                           AS3 f32* sums, const Leave& leave, const Done& done) {
  using Rows = Mma64Rows<W, Share>;
  using Sums = typename Rows::Sums;
  using All = typename Rows::All;
  launder_thread(w);
  const auto share_of = [&](u32 tokens) {
    return Share(w, min(tokens - pass, Share::pass_tokens), block.strips);
  };
  All total;
  MK_UNROLL
  for (Sums& t : total) t.clear();
  // each_strip() calls use(strip, token, sum) for each of the warp's sums whose tokens are there.
  const auto each_strip = [&](const All& all, const auto& use) {
    launder_thread(w);
    const u32 tokens = laundered(a).tokens;
    const Share share = share_of(tokens);
    each_sum(all, share.sums(), [&](u32 i, const Sums& sum) {
      const u32 token = pass + share.token_of(i);
      if (Share::sums_of_strip == 1 || token < tokens) use(share.strip_of(i), token, sum);
    });
  };
  const auto store_k_slice = [&](u32 k_slice, const All& of) {
    each_strip(of, [&](u32 strip, u32 token, const Sums& sum) { leave(k_slice, strip, token, sum); });
  };
  const auto add_k_slice = [&](const All& of) {
    MK_UNROLL
    for (u32 s = 0; s < Share::max_sums; ++s) {
      MK_UNROLL
      for (u32 i = 0; i < 8; ++i) total[s].sum[i] += of[s].sum[i];
    }
  };
  drain_k_slices<W, Fp8>(w, a, in, pass, block, share_of(a.tokens), [&](u32 k_slice, const All& of) {
    is_split(a) ? store_k_slice(k_slice, of) : add_k_slice(of);
  });
  launder_thread(w);
  if (is_split(a)) return;
  consumer_barrier();  // `sums` overlaps the activations
  each_strip(total, [&](u32 strip, u32 token, const Sums& sum) {
    sum.store(w.lane(), sums);
    done(strip, token);
  });
}

}  // namespace mk
