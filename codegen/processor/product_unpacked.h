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

// kPassStrips go through a pass of tokens together, and share each value that is loaded of a token. Through
// one strip, each multiply-add loads a value. Intel's processors load no more values than they multiply:
// those without BF16, or with AMX.
#if defined __AVX512F__ && (!defined __AVX512BF16__ || defined __AMX_BF16__)
constexpr u32 kPassStrips = 2;
#else
constexpr u32 kPassStrips = 1;
#endif

// UnpackedStrip is the memory of a worker for one strip. Passes may have more tokens than there are, so sums
// have room for them.
struct alignas(64) UnpackedStrip {
  char weights[kChunkCols * kStripRows * sizeof(f32)];
  StripGroup groups[kChunkCols / kStripRows];  // groups have 16 columns or more
  f32x16 sums[kMaxTokens + kSpareRows];        // of a K slice, by token
  f32x16 totals[kMaxTokens + kSpareRows];
};
static_assert(kPassStrips * sizeof(UnpackedStrip) <= kUnpackedBytes);
// unpacked_strips() is the memory of kPassStrips strips.
MK_INLINE UnpackedStrip* unpacked_strips(const Worker& w) {
  return (UnpackedStrip*)plain(w.shared + kUnpackedOffset);
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

// ChunkColumns is `cols` columns of `Strips` strips, from `col` of a K slice on. `first` and `last` are said
// of the chunks of the K slice. The last chunk leaves the slice's sums in `totals`: alone, or added to what
// is there. A pass prefetches a line at each of `ahead`, and goes on by `stride` bytes for each Weights that
// it multiplies.
template <class W, u32 Strips>
struct ChunkColumns {
  UnpackedStrip* strips;
  const char* weights[Strips];  // the columns as Weights
  u32 k_slice, col, cols;
  bool first, last, alone;
  f32x16 row_scales[Strips];
  typename Steps<W::type>::Seen seen[Strips];
  const char* ahead[Strips];
  u32 stride;

  // begin() loads the sums of `Tokens` tokens from `token` on. leave() leaves them for the next chunk, or
  // adds them to the totals.
  //
  // Both copy what they read of this struct first. The compiler otherwise takes each store of a sum for a
  // change of it.
  template <u32 Tokens>
  MK_INLINE void begin(u32 token, f32x16 (&sum)[Strips][Tokens]) const {
    const bool none = first;
    MK_UNROLL
    for (u32 i = 0; i < Strips * Tokens; ++i)
      sum[i / Tokens][i % Tokens] = none ? all_lanes(0) : strips[i / Tokens].sums[token + i % Tokens];
  }
  template <u32 Tokens>
  MK_INLINE void leave(u32 token, const f32x16 (&sum)[Strips][Tokens]) const {
    UnpackedStrip* const to = strips;
    if (!last) {
      MK_UNROLL
      for (u32 i = 0; i < Strips * Tokens; ++i)
        to[i / Tokens].sums[token + i % Tokens] = sum[i / Tokens][i % Tokens];
      return;
    }
    const bool none = alone;
    MK_UNROLL
    for (u32 s = 0; s < Strips; ++s) {
      const f32x16 scales = row_scales[s];
      const typename Steps<W::type>::Seen codes = seen[s];
      MK_UNROLL
      for (u32 t = 0; t < Tokens; ++t) {
        f32x16 added = sum[s][t];
        if constexpr (W::scaled) added = fma(added, scales, all_lanes(0));
        added = Steps<W::type>::with_nans(added, codes);
        f32x16& total = to[s].totals[token + t];
        total = (none ? all_lanes(0) : total) + added;
      }
    }
  }
};

// step_strips() adds the products of the strips' weights with a value of a token to the sums that of(strip)
// gives. Several strips share the value's register.
template <class S, u32 Strips, class Of>
MK_INLINE void step_strips(const typename S::Weights (&w)[Strips], typename S::X x, const Of& of) {
  typename S::Weights lanes(x);
#ifdef __AVX512F__
  if constexpr (Strips > 1) in_register(lanes);
#endif
  MK_UNROLL
  for (u32 s = 0; s < Strips; ++s) of(s) = S::step(of(s), w[s], lanes);
#ifdef __AVX512F__
  if constexpr (Strips > 1) still_used(lanes);
#endif
}

// add_parts() adds the products of every partial_sums-th of `parts` parts to partial sum p. The parts begin
// at `begin` in the chunk. `x` are those of the first token.
template <class W, u32 Strips, u32 Tokens>
MK_INLINE void add_parts(const ChunkColumns<W, Strips>& c, const typename Steps<W::type>::X* x, u32 begin,
                         u32 p, u32 parts, typename Steps<W::type>::GroupSum (&to)[Strips][Tokens]) {
  typedef Steps<W::type> S;
  typedef typename S::Weights Weights;
  constexpr u64 kStep = S::partial_sums;
  const u64 count = parts / kStep, stride = c.stride;
  const typename S::X* at = x + begin + p;
  const char *weights[Strips], *ahead[Strips];
  MK_UNROLL
  for (u32 s = 0; s < Strips; ++s) {
    weights[s] = c.weights[s] + (u64)(begin + p) * sizeof(Weights);
    ahead[s] = c.ahead[s] + begin * stride;
  }
  _Pragma("clang loop unroll_count(2)") for (u64 n = 0; n < count; ++n) {
    Weights w[Strips];
    MK_UNROLL
    for (u32 s = 0; s < Strips; ++s) {
      if (p == 0 && n * kStep % 2 == 0) prefetch_line(ahead[s] + n * kStep * stride);
      w[s] = load<Weights>(weights[s] + n * kStep * sizeof(Weights));
    }
    MK_UNROLL
    for (u64 t = 0; t < Tokens; ++t)
      step_strips<S>(w, at[t * Rows<W>::kChunkWords + n * kStep], [&](u32 s) -> auto& { return to[s][t]; });
  }
}

// add_chunk() adds the products of a chunk with `Tokens` tokens to their sums. Registers have those of one
// partial sum.
template <class W, u32 Strips, u32 Tokens>
MK_INLINE void add_chunk(const ChunkColumns<W, Strips>& c, const Rows<W>& rows, u32 token) {
  typedef Steps<W::type> S;
  constexpr u32 kPartialSums = S::partial_sums, kSums = Strips * Tokens;
  const auto parts_of = [](u32 columns) { return columns / S::cols * S::parts; };
  const typename S::X* x =
      rows.of_pass(token, Tokens, c.k_slice) + c.col / kChunkCols * Tokens * Rows<W>::kChunkWords;
  const u32 parts = parts_of(c.cols);
  f32x16 sum[Strips][Tokens];
  c.begin(token, sum);
  if constexpr (!W::grouped) {
    add_parts<W, Strips, Tokens>(c, x, 0, 0, parts, sum);
    MK_UNROLL
    for (u32 p = 1; p < kPartialSums; ++p) {
      typename S::GroupSum more[Strips][Tokens] = {};
      add_parts<W, Strips, Tokens>(c, x, 0, p, parts, more);
      MK_UNROLL
      for (u32 i = 0; i < kSums; ++i) sum[i / Tokens][i % Tokens] += more[i / Tokens][i % Tokens];
    }
  } else {
    constexpr u32 kGroup = parts_of(W::row.group_cols);
    for (u32 begin = 0, g = 0; begin < parts; begin += kGroup, ++g) {
      const u32 number = (c.k_slice * (rows.padded / kKSlices) + c.col) / W::row.group_cols + g;
      for (u32 p = 0; p < kPartialSums; ++p) {
        typename S::GroupSum of[Strips][Tokens] = {};
        MK_UNROLL
        for (u32 i = 0; p == 0 && i < kSums; ++i) {
          const u32 s = i / Tokens, t = i % Tokens;
          of[s][t] = S::start(c.strips[s].groups[g], rows.group(token, Tokens, t, number));
        }
        add_parts<W, Strips, Tokens>(c, x, begin, p, kGroup, of);
        MK_UNROLL
        for (u32 i = 0; i < kSums; ++i) {
          const u32 s = i / Tokens, t = i % Tokens;
          sum[s][t] =
              S::add_group(sum[s][t], of[s][t], c.strips[s].groups[g], rows.group(token, Tokens, t, number));
        }
      }
    }
  }
  c.leave(token, sum);
}

// UnpackedProduct is a product of strips with the tokens of `rows`, over K slices [from, to).
template <class W>
struct UnpackedProduct {
  UnpackedStrip* memory;  // of kPassStrips strips
  const Rows<W>& rows;
  u32 tokens;
  u64 strip_bytes;
  u32 from, to;

  // add_k_slice() adds the sums of a K slice of strips to their totals. The first strip begins at `strips`.
  // `alone` leaves the sums there alone.
  template <u32 Strips>
  __attribute__((noinline)) void add_k_slice(const char* strips, u32 k_slice, bool alone) const {
    typedef Steps<W::type> S;
    const u32 cols = rows.padded / kKSlices, passes = passes_of(tokens);
    ChunkColumns<W, Strips> c{};
    c.strips = memory, c.k_slice = k_slice, c.alone = alone;
    const char* packed[Strips];
    for (u32 s = 0; s < Strips; ++s) {
      const char* const strip = strips + s * strip_bytes;
      if constexpr (W::scaled) c.row_scales[s] = row_scales<W>(strip, strip_bytes);
      packed[s] = strip + k_slice * tile_bytes(W::row, cols);
    }
    for (u32 col = 0; col < cols; col += kChunkCols) {
      c.col = col, c.cols = min(kChunkCols, cols - col);
      c.first = col == 0, c.last = col + c.cols == cols;
      u32 pass_bytes = 0;
      for (u32 s = 0; s < Strips; ++s) {
        UnpackedStrip& to = memory[s];
        const char* const next = S::as_packed
                                     ? packed[s] + c.cols / S::cols * S::bytes
                                     : unpack<W>(to.weights, to.groups, packed[s], c.cols, c.seen[s]);
        c.weights[s] = S::as_packed ? packed[s] : to.weights;
        c.ahead[s] = next + kChunkAheadBytes;
        pass_bytes = ((u32)(next - packed[s]) + passes - 1) / passes;
        packed[s] = next;
      }
      const u32 parts = c.cols / S::cols * S::parts;
      c.stride = (pass_bytes + parts - 1) / parts;
      each_pass(tokens, [&](u32 token, u32 size) {
        if (size == kFullPass)
          add_chunk<W, Strips, kFullPass>(c, rows, token);
        else
          add_chunk<W, Strips, kSmallPass>(c, rows, token);
        for (u32 s = 0; s < Strips; ++s) c.ahead[s] += pass_bytes;
      });
    }
  }
  // run() multiplies strips from `strip` on with all tokens.
  template <u32 Strips, class Store, class StoreSlice>
  MK_INLINE void run(const char* weights, u32 strip, const Store& store,
                     const StoreSlice& store_slice) const {
    const bool all = from == 0 && to == kKSlices;
    for (u32 k_slice = from; k_slice < to; ++k_slice) {
      add_k_slice<Strips>(weights + strip * strip_bytes, k_slice, !all || k_slice == 0);
      if (all) continue;
      MK_ROLLED
      for (u32 i = 0; i < Strips * tokens; ++i)
        store_slice(strip + i / tokens, k_slice, i % tokens, memory[i / tokens].totals[i % tokens]);
    }
    if (!all) return;
    MK_ROLLED
    for (u32 s = 0; s < Strips; ++s) store(strip + s, 0, tokens, memory[s].totals);
  }
  // operator() multiplies strips [strip, end) of `weights` with all tokens. store(strip, 0, tokens, sums)
  // gets the sums of a strip, or store_slice(strip, k_slice, token, sums) those of single K slices.
  template <class Store, class StoreSlice>
  MK_INLINE void operator()(const char* weights, u32 strip, u32 end, const Store& store,
                            const StoreSlice& store_slice) const {
    MK_ROLLED
    for (; strip + kPassStrips <= end; strip += kPassStrips)
      run<kPassStrips>(weights, strip, store, store_slice);
    if constexpr (kPassStrips > 1) {
      MK_ROLLED
      for (; strip < end; ++strip) run<1>(weights, strip, store, store_slice);
    }
  }
};

// multiply_all() multiplies strips [strip, end) of a product with all of its tokens.
template <class W, class Store, class StoreSlice>
MK_INLINE void multiply_all(const Worker& w, const Product<W>& product, u32 strip, u32 end,
                            const Store& store, const StoreSlice& store_slice) {
  if (product.a.tokens <= kPackedTokens) return product(strip, end, store, store_slice);
  const UnpackedProduct<W> unpacked{unpacked_strips(w),  product.rows, product.a.tokens,
                                    product.strip_bytes, product.from, product.to};
  unpacked(product.weights, strip, end, store, store_slice);
}

}  // namespace mk
