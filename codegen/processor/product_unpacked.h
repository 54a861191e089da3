// Products of more than kPackedTokens tokens. A chunk of a strip's columns is unpacked to the worker's memory
// once, and all tokens go through it there. So a weight is unpacked once, whatever its format and the number
// of tokens. Weights that need no unpacking are multiplied where they lie.
//
// Sums of tokens wait in memory between chunks. Each sum adds the same products in the same order as in
// product.h, so its bits are the same.
#pragma once

#include "codegen/processor/product.h"

namespace mk {

// kChunkAheadBytes lie between the end of a chunk and what is prefetched while the chunk is multiplied.
constexpr u32 kChunkAheadBytes = 1024;

// UnpackedChunk is the memory of a worker for one strip. Passes may have more tokens than there are, so sums
// have room for them.
struct alignas(64) UnpackedChunk {
  char weights[kChunkCols * kStripRows * sizeof(f32)];
  StripGroup groups[kChunkCols / kStripRows];  // groups have 16 columns or more
  f32x16 sums[kMaxTokens + kSpareRows];        // of a K slice, by token
  f32x16 totals[kMaxTokens + kSpareRows];
};
static_assert(sizeof(UnpackedChunk) <= kUnpackedBytes);
MK_INLINE UnpackedChunk& chunk_of(const Worker& w) {
  return *(UnpackedChunk*)plain(w.shared + kUnpackedOffset);
}

// unpack() unpacks `cols` columns of a strip, which begin at `from`, to `weights` and `groups`. The result is
// where the columns end. `seen` gets what is seen of the codes. `ahead` is 0, or how far ahead codes are
// prefetched.
template <class W>
MK_INLINE const char* unpack(char* weights, StripGroup* groups, const char* from, u32 cols,
                             typename Steps<W::type>::Seen& seen, u32 ahead = 0) {
  typedef Steps<W::type> S;
  typedef typename S::Weights Weights;
  static_assert(sizeof(Weights) == sizeof(f32x16));
  constexpr u32 group_cols = W::grouped ? W::row.group_cols : kChunkCols;
  static_assert(kChunkCols % group_cols == 0 && group_cols >= kStripRows);
  Weights* to = (Weights*)weights;
  for (u32 begin = 0; begin < cols; begin += group_cols) {
    const u32 steps = min(group_cols, cols - begin) / S::cols;
    typename S::Group with{};
    if constexpr (W::grouped) {
      with = S::group(from + steps * S::bytes);
      groups[begin / group_cols] = with;
    }
    for (u32 i = 0; i < steps; ++i, from += S::bytes) {
      S::see(seen, from);
      if (ahead != 0) prefetch_line(from + ahead);
      Weights parts[S::parts];  // a store between loads would have the compiler unpack anew what parts share
      MK_UNROLL
      for (u32 part = 0; part < S::parts; ++part) parts[part] = S::load(from, part, with);
      MK_UNROLL
      for (u32 part = 0; part < S::parts; ++part) *to++ = parts[part];
    }
    from += W::row.group_bytes();
  }
  return from;
}

// Ahead is what a pass prefetches: `stride` bytes for each Weights that it multiplies.
struct Ahead {
  const char* from;
  u32 stride;
};

// ChunkColumns is `cols` columns of a strip, from `col` of a K slice on. `first` and `last` are said of the
// chunks of the K slice. The last chunk leaves the slice's sums in `totals`: alone, or added to what is
// there.
template <class W>
struct ChunkColumns {
  UnpackedChunk& chunk;
  const char* weights;  // the columns as Weights
  u32 k_slice, col, cols;
  bool first, last, alone;
  f32x16 row_scales;
  typename Steps<W::type>::Seen seen;

  MK_INLINE f32x16 sum_before(u32 token) const { return first ? all_lanes(0) : chunk.sums[token]; }
  MK_INLINE void leave(u32 token, f32x16 sum) const {
    if (!last) {
      chunk.sums[token] = sum;
      return;
    }
    if constexpr (W::scaled) sum = fma(sum, row_scales, all_lanes(0));
    sum = Steps<W::type>::with_nans(sum, seen);
    chunk.totals[token] = (alone ? all_lanes(0) : chunk.totals[token]) + sum;
  }
};

// add_chunk() adds the products of a chunk with `Tokens` tokens to their sums.
template <class W, u32 Tokens>
MK_INLINE void add_chunk(const ChunkColumns<W>& c, const Rows<W>& rows, u32 token, const Ahead& ahead) {
  typedef Steps<W::type> S;
  typedef typename S::Weights Weights;
  constexpr u32 kStride = Rows<W>::kChunkWords;
  const auto parts_of = [](u32 columns) { return columns / S::cols * S::parts; };
  const typename S::X* x = rows.of_pass(token, Tokens, c.k_slice) + c.col / kChunkCols * Tokens * kStride;
  const u32 group = W::grouped ? parts_of(W::row.group_cols) : parts_of(c.cols);
  // add() adds the parts of partial sum p, from the part `begin` on. Registers have sums of one.
  constexpr u32 kPartialSums = S::partial_sums;
  const auto add = [&](u32 begin, u32 p, typename S::GroupSum(&to)[Tokens]) {
    const u32 count = group / kPartialSums;
    const char* weights = c.weights + (u64)(begin + p) * sizeof(Weights);
    const typename S::X* at = x + begin + p;
    const char* prefetched = ahead.from + (u64)begin * ahead.stride;
    _Pragma("clang loop unroll_count(2)") for (u32 n = 0; n < count; ++n) {
      if (p == 0 && n * kPartialSums % 2 == 0)
        prefetch_line(prefetched + (u64)n * kPartialSums * ahead.stride);
      const Weights w = load<Weights>(weights + (u64)n * kPartialSums * sizeof(Weights));
      MK_UNROLL
      for (u32 t = 0; t < Tokens; ++t) to[t] = S::step(to[t], w, at[t * kStride + n * kPartialSums]);
    }
  };
  f32x16 sum[Tokens];
  MK_UNROLL
  for (u32 t = 0; t < Tokens; ++t) sum[t] = c.sum_before(token + t);
  if constexpr (!W::grouped) {
    add(0, 0, sum);
    MK_UNROLL
    for (u32 p = 1; p < kPartialSums; ++p) {
      typename S::GroupSum more[Tokens] = {};
      add(0, p, more);
      MK_UNROLL
      for (u32 t = 0; t < Tokens; ++t) sum[t] += more[t];
    }
  } else {
    for (u32 begin = 0, i = 0; begin < parts_of(c.cols); begin += group, ++i) {
      const u32 number = (c.k_slice * (rows.padded / kKSlices) + c.col) / W::row.group_cols + i;
      const typename S::Group& with = c.chunk.groups[i];
      for (u32 p = 0; p < kPartialSums; ++p) {
        typename S::GroupSum of[Tokens] = {};
        if (p == 0) {
          MK_UNROLL
          for (u32 t = 0; t < Tokens; ++t) of[t] = S::start(with, rows.group(token, Tokens, t, number));
        }
        add(begin, p, of);
        MK_UNROLL
        for (u32 t = 0; t < Tokens; ++t)
          sum[t] = S::add_group(sum[t], of[t], with, rows.group(token, Tokens, t, number));
      }
    }
  }
  MK_UNROLL
  for (u32 t = 0; t < Tokens; ++t) c.leave(token + t, sum[t]);
}

// UnpackedProduct is a product of strips with the tokens of `rows`, over K slices [from, to).
template <class W>
struct UnpackedProduct {
  UnpackedChunk& chunk;
  const Rows<W>& rows;
  u32 tokens;
  u64 strip_bytes;
  u32 from, to;

  // add_k_slice() adds the sums of a K slice of one strip, which begins at `strip`, to chunk.totals. `alone`
  // leaves them there alone.
  __attribute__((noinline)) void add_k_slice(const char* strip, u32 k_slice, bool alone) const {
    typedef Steps<W::type> S;
    const u32 cols = rows.padded / kKSlices, passes = passes_of(tokens);
    ChunkColumns<W> c{chunk, nullptr, k_slice, 0, 0, false, false, alone, {}, {}};
    if constexpr (W::scaled) c.row_scales = row_scales<W>(strip, strip_bytes);
    const char* weights = strip + k_slice * tile_bytes(W::row, cols);
    for (u32 col = 0; col < cols; col += kChunkCols) {
      c.col = col, c.cols = min(kChunkCols, cols - col);
      c.first = col == 0, c.last = col + c.cols == cols;
      const char* const next = S::as_packed ? weights + c.cols / S::cols * S::bytes
                                            : unpack<W>(chunk.weights, chunk.groups, weights, c.cols, c.seen);
      c.weights = S::as_packed ? weights : chunk.weights;
      const u32 bytes = (u32)(next - weights), pass_bytes = (bytes + passes - 1) / passes,
                parts = c.cols / S::cols * S::parts;
      Ahead ahead{next + kChunkAheadBytes, (pass_bytes + parts - 1) / parts};
      weights = next;
      each_pass(tokens, [&](u32 token, u32 size) {
        if (size == kFullPass)
          add_chunk<W, kFullPass>(c, rows, token, ahead);
        else
          add_chunk<W, kSmallPass>(c, rows, token, ahead);
        ahead.from += pass_bytes;
      });
    }
  }
  // run() calls store(sums), with the sums of all tokens, or store_slice(k_slice, token, sums), for one
  // strip, which begins at `strip`.
  template <class Store, class StoreSlice>
  MK_INLINE void run(const char* strip, const Store& store, const StoreSlice& store_slice) const {
    const bool all = from == 0 && to == kKSlices;
    for (u32 k_slice = from; k_slice < to; ++k_slice) {
      add_k_slice(strip, k_slice, !all || k_slice == 0);
      if (all) continue;
      MK_ROLLED
      for (u32 t = 0; t < tokens; ++t) store_slice(k_slice, t, chunk.totals[t]);
    }
    if (!all) return;
    store(chunk.totals);
  }
};

// multiply_all() multiplies strips [strip, end) of a product with all of its tokens.
template <class W, class Store, class StoreSlice>
MK_INLINE void multiply_all(const Worker& w, const Product<W>& product, u32 strip, u32 end,
                            const Store& store, const StoreSlice& store_slice) {
  if (product.a.tokens <= kPackedTokens) return product(strip, end, store, store_slice);
  const UnpackedProduct<W> unpacked{chunk_of(w),         product.rows, product.a.tokens,
                                    product.strip_bytes, product.from, product.to};
  MK_ROLLED
  for (; strip < end; ++strip)
    unpacked.run(
        product.weights + strip * product.strip_bytes,
        [&](const f32x16* sums) { store(strip, 0, product.a.tokens, sums); },
        [&](u32 k_slice, u32 token, f32x16 sums) { store_slice(strip, k_slice, token, sums); });
}

}  // namespace mk
