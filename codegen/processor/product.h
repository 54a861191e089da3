// Products multiply strips of 16 weight rows with the rows of a step.
//
// A lane of a vector is a row of the strip. A step along the columns loads the strip's weights once and
// multiplies them with a value of each token, which goes to all lanes. The sums of a K slice are added in the
// order of its columns, and then the K slices in order. So the result of a strip and token depends neither on
// the strips and tokens beside it, nor on how the columns are split into parts.
#pragma once

#include "codegen/processor/product_rows.h"

namespace mk {

// Groups of tokens go through strips together. together() is how many strips then go together, whose sums are
// kept in registers. One strip of few tokens has few sums, and each multiply-add waits for the one before in
// its sum. Formats with groups of columns take one strip, because the sums of groups do not wait for each
// other. With AVX-512 and BF16 all codes do, as unpacking runs beside the multiply-adds.
//
// partials_of() is how many partial sums a sum is made of, where a strip has `sums` sums. The order of
// integers changes no bit. Other sums have as many partial sums for any number of tokens
// (Steps::partial_sums).
//
// prefetch_bytes() lie between what is multiplied of a strip and what is prefetched of it to L2. Strips that
// go together share kStripsAheadBytes. Prefetches take all lines, because the processor's own do not follow
// the few that others leave. One or two tokens leave weights without codes to the processor's own: 0.
//
// kMultipliesF32 says that a processor with AVX-512 multiplies bf16 and E4M3 as f32. Those that lack BF16 are
// Intel's, where all weights come faster with prefetches, and further ahead.
#if defined __AVX512F__ && !defined __AVX512BF16__
constexpr bool kMultipliesF32 = true;
constexpr u32 kStripsAheadBytes = 16384;
#else
constexpr bool kMultipliesF32 = false;
constexpr u32 kStripsAheadBytes = 8192;
#endif
template <class W>
MK_INLINE constexpr u32 prefetch_bytes(u32 strips, u32 tokens) {
  return W::row.coded() || tokens > 2 || kMultipliesF32 ? kStripsAheadBytes / strips : 0;
}
#ifdef __AVX512F__
constexpr u32 kGroupTokens = 8;
template <class W>
MK_INLINE constexpr u32 together(u32 tokens) {
  if (kMultipliesF32 && !W::grouped && tokens <= 2) return 4 / tokens;
  return tokens > 2 && !W::row.coded() ? 2 : 1;
}
template <class S>
MK_INLINE constexpr u32 partials_of(u32 sums) {
  constexpr u32 kClocks = 4;  // of a multiply-add
  return S::exact && sums < kClocks ? min(kClocks / sums, S::parts) : S::partial_sums;
}
MK_INLINE void end_strip(f32x16&) {}
#else
constexpr u32 kGroupTokens = 4;
template <class W>
MK_INLINE constexpr u32 together(u32 tokens) {
  return W::grouped || tokens > 2 ? 1 : tokens == 2 ? 2 : 4;
}
template <class S>
MK_INLINE constexpr u32 partials_of(u32) {
  return S::partial_sums;  // an addition of integers takes 1 clock
}
// end_strip() stands after a strip's step, and keeps the compiler from mixing it with the next strip's. Words
// and sums of four strips need more than the 16 registers.
MK_INLINE void end_strip([[maybe_unused]] f32x16& sum) {
#ifdef __AVX2__
  __m256 low = (__m256)sum.lo, high = (__m256)sum.hi;
  __asm__ volatile("" : "+x"(low), "+x"(high)::"memory");
  sum.lo = (__typeof__(sum.lo))low;
  sum.hi = (__typeof__(sum.hi))high;
#endif
}
#endif
static_assert(kPackedTokens % kGroupTokens == 0 && kPackedTokens - kGroupTokens <= kSpareRows);
constexpr u32 kLineBytes = 64;

MK_INLINE u64 strip_bytes_of(const ProductArgs& a, const WeightFormat& format) {
  return (u64)(a.tiles - 1) * full_tile_bytes(format) + last_tile_bytes(format, a.tail_cols);
}

// SumsOf is the partial sums of `Strips` strips and `Tokens` tokens.
template <class S, u32 Strips, u32 Tokens>
struct SumsOf {
  static constexpr u32 partials = partials_of<S>(Strips * Tokens);
  typename S::GroupSum of[partials][Strips][Tokens] = {};
};

// add_steps() adds the products of `steps` steps of `Strips` strips with `Tokens` tokens to `sums`, the parts
// of a step to the partial sums in turn. `weights` are those of the first strip, and `x` those of the first
// token. `with` is what the strips have for the steps, and `seen` what was seen of their codes.
template <class W, u32 Strips, u32 Tokens>
MK_INLINE void add_steps(const char* weights, u64 strip_bytes, const typename Steps<W::type>::X* x,
                         u32 stride, u32 steps, const typename Steps<W::type>::Group (&with)[Strips],
                         typename Steps<W::type>::Seen (&seen)[Strips],
                         SumsOf<Steps<W::type>, Strips, Tokens>& sums) {
  typedef Steps<W::type> S;
  static_assert(S::parts % S::partial_sums == 0);
  _Pragma("clang loop unroll_count(2)") for (u32 i = 0; i < steps; ++i) {
    const char* at = weights + (u64)i * S::bytes;
    constexpr u32 ahead = prefetch_bytes<W>(Strips, Tokens);
    MK_UNROLL
    for (u32 s = 0; s < Strips; ++s)
      if (ahead != 0 && (S::bytes >= kLineBytes || i % (kLineBytes / S::bytes) == 0))
        prefetch_line(at + s * strip_bytes + ahead);
    MK_UNROLL
    for (u32 s = 0; s < Strips; ++s) S::see(seen[s], at + s * strip_bytes);
    MK_UNROLL
    for (u32 s = 0; s < Strips; ++s) {
      MK_UNROLL
      for (u32 part = 0; part < S::parts; ++part) {
        const typename S::Weights w = S::load(at + s * strip_bytes, part, with[s]);
        MK_UNROLL
        for (u32 t = 0; t < Tokens; ++t) {
          auto& to = sums.of[part % sums.partials][s][t];
          to = S::step(to, w, typename S::Weights(x[(u64)t * stride + i * S::parts + part]));
        }
      }
      if constexpr (Strips > 1) end_strip(sums.of[0][s][0]);
    }
  }
}

// add_groups() is add_steps() for the `groups` groups of columns of a K slice. The sums of a group are
// multiplied with its scales.
template <class W, u32 Strips, u32 Tokens>
MK_INLINE void add_groups(const char* weights, u64 strip_bytes, const Rows<W>& rows, u32 token, u32 k_slice,
                          u32 groups, typename Steps<W::type>::Seen (&seen)[Strips],
                          f32x16 (&sum)[Strips][Tokens]) {
  typedef Steps<W::type> S;
  constexpr u32 steps = W::row.group_cols / S::cols;
  const typename S::X* x = rows.of(token, k_slice);
  const u32 first = k_slice * groups;
  for (u32 group = 0; group < groups; ++group) {
    SumsOf<S, Strips, Tokens> sums;
    const char* at = weights + group_begin(W::row, group);
    typename S::Group with[Strips];
    MK_UNROLL
    for (u32 s = 0; s < Strips; ++s) {
      const char* scales = at + s * strip_bytes + steps * S::bytes;
      with[s] = S::group(scales);
      prefetch_line(scales + prefetch_bytes<W>(Strips, Tokens));
      MK_UNROLL
      for (u32 t = 0; t < Tokens; ++t)
        sums.of[0][s][t] = S::start(with[s], rows.group(token + t, 1, 0, first + group));
    }
    add_steps<W, Strips, Tokens>(at, strip_bytes, x + (u64)group * steps * S::parts, rows.stride, steps, with,
                                 seen, sums);
    MK_UNROLL
    for (u32 i = 0; i < Strips * Tokens; ++i) {
      const u32 s = i / Tokens, t = i % Tokens;
      const auto add = [&](const typename S::GroupSum& of) {
        sum[s][t] = S::add_group(sum[s][t], of, with[s], rows.group(token + t, 1, 0, first + group));
      };
      auto of = sums.of[0][s][t];
      MK_UNROLL
      for (u32 p = 1; p < sums.partials; ++p) {
        if constexpr (S::exact)
          of += sums.of[p][s][t];
        else
          add(of), of = sums.of[p][s][t];
      }
      add(of);
    }
  }
}

// add_chunks() is add_steps() for a K slice of a format without groups. Sums become one behind each chunk.
template <class W, u32 Strips, u32 Tokens>
MK_INLINE void add_chunks(const char* weights, u64 strip_bytes, const Rows<W>& rows, u32 token, u32 k_slice,
                          u32 steps, typename Steps<W::type>::Seen (&seen)[Strips],
                          f32x16 (&sum)[Strips][Tokens]) {
  typedef Steps<W::type> S;
  typedef SumsOf<S, Strips, Tokens> Sums;
  const u32 max_steps = Sums::partials > 1 ? kChunkCols / S::cols : steps;
  const typename S::X* x = rows.of(token, k_slice);
  Sums sums;
  for (u32 done = 0; done < steps; done += max_steps) {
    add_steps<W, Strips, Tokens>(weights + (u64)done * S::bytes, strip_bytes, x + done * S::parts,
                                 rows.stride, min(max_steps, steps - done), {}, seen, sums);
    MK_UNROLL
    for (u32 p = 1; p < Sums::partials; ++p) {
      MK_UNROLL
      for (u32 i = 0; i < Strips * Tokens; ++i) {
        sums.of[0][i / Tokens][i % Tokens] += sums.of[p][i / Tokens][i % Tokens];
        sums.of[p][i / Tokens][i % Tokens] = all_lanes(0);
      }
    }
  }
  MK_UNROLL
  for (u32 i = 0; i < Strips * Tokens; ++i) sum[i / Tokens][i % Tokens] = sums.of[0][i / Tokens][i % Tokens];
}

// row_scales() reads the scales of a strip's rows.
template <class W>
MK_INLINE f32x16 row_scales(const char* strip, u64 strip_bytes) {
  const f32x16 scales = load<f32x16>(strip + scales_offset(strip_bytes));
  return W::grouped ? scales : scales * Steps<W::type>::scale;
}

// prefetch_gap() prefetches for the lines between a strip's last column and its `end`, which hold the scales
// of rows.
MK_INLINE void prefetch_gap(const char* end, u32 ahead) {
  MK_UNROLL
  for (u32 i = kKSlices; i != 0; --i) prefetch_line(end - i * kStripRows * sizeof(f32) + ahead);
}

// multiply() multiplies `Strips` strips with `Tokens` tokens over K slices [from, to). at_end(k_slice, sums)
// gets the sums of each K slice, [strip][token]. `strips` is where the first strip begins.
template <class W, u32 Strips, u32 Tokens, class AtEnd>
MK_INLINE void multiply(const char* strips, u64 strip_bytes, const Rows<W>& rows, u32 token, u32 from, u32 to,
                        const AtEnd& at_end) {
  typedef Steps<W::type> S;
  const u32 cols = rows.padded / kKSlices;
  const u64 k_slice_bytes = tile_bytes(W::row, cols);
  const char* weights = strips + from * k_slice_bytes;
  for (u32 k_slice = from; k_slice < to; ++k_slice) {
    f32x16 sum[Strips][Tokens] = {};
    typename S::Seen seen[Strips] = {};
    if constexpr (W::grouped) {
      const u32 groups = cols / W::row.group_cols;
      add_groups<W, Strips, Tokens>(weights, strip_bytes, rows, token, k_slice, groups, seen, sum);
    } else {
      add_chunks<W, Strips, Tokens>(weights, strip_bytes, rows, token, k_slice, cols / S::cols, seen, sum);
    }
    weights += k_slice_bytes;
    if constexpr (W::scaled) {
      MK_UNROLL
      for (u32 s = 0; s < Strips; ++s) {
        const f32x16 scale = row_scales<W>(strips + s * strip_bytes, strip_bytes);
        MK_UNROLL
        for (u32 t = 0; t < Tokens; ++t) sum[s][t] = fma(sum[s][t], scale, all_lanes(0));
      }
    }
    MK_UNROLL
    for (u32 i = 0; i < Strips * Tokens; ++i)
      sum[i / Tokens][i % Tokens] = S::with_nans(sum[i / Tokens][i % Tokens], seen[i / Tokens]);
    at_end(k_slice, sum);
  }
  if (W::scaled && to == kKSlices)
    prefetch_gap(strips + Strips * strip_bytes, prefetch_bytes<W>(Strips, Tokens));
}

// Product is the product of strips with prepared rows. store(strip, token, tokens, sums) gets the sums over
// all K slices, of `tokens` tokens from `token` on; store_slice(strip, k_slice, token, sums) those of single
// ones.
template <class W>
struct Product {
  const ProductArgs& a;
  Rows<W> rows;
  const char* weights;  // of strip 0
  u64 strip_bytes;
  u32 from, to;  // K slices

  MK_INLINE Product(const Worker& w, const ProductArgs& args, const char* of_strips, u32 first, u32 last)
      : a(args),
        rows(w, args),
        weights(of_strips),
        strip_bytes(strip_bytes_of(a, W::row)),
        from(first),
        to(last) {}

  template <u32 Strips, u32 Tokens, class Store, class StoreSlice>
  MK_INLINE void run(u32 strip, u32 token, const Store& store, const StoreSlice& store_slice) const {
    f32x16 total[Strips][Tokens] = {};
    const bool all = from == 0 && to == kKSlices;
    multiply<W, Strips, Tokens>(weights + strip * strip_bytes, strip_bytes, rows, token, from, to,
                                [&](u32 k_slice, const f32x16(&sum)[Strips][Tokens]) {
                                  MK_UNROLL
                                  for (u32 s = 0; s < Strips; ++s) {
                                    MK_UNROLL
                                    for (u32 t = 0; t < Tokens; ++t) {
                                      total[s][t] += sum[s][t];
                                      if (!all) store_slice(strip + s, k_slice, token + t, sum[s][t]);
                                    }
                                  }
                                });
    if (!all) return;
    MK_UNROLL
    for (u32 s = 0; s < Strips; ++s) store(strip + s, token, Tokens, total[s]);
  }

  // through() takes `Tokens` tokens from `token` on through strips [strip, end).
  template <u32 Tokens, class Store, class StoreSlice>
  MK_INLINE void through(u32 strip, u32 end, u32 token, const Store& store, const StoreSlice& slice) const {
    constexpr u32 kMost = together<W>(Tokens);
    MK_ROLLED
    for (; strip + kMost <= end; strip += kMost) run<kMost, Tokens>(strip, token, store, slice);
    if constexpr (kMost > 1) {
      MK_ROLLED
      for (; strip < end; ++strip) run<1, Tokens>(strip, token, store, slice);
    }
  }

  // in_groups() takes more tokens than a group through a strip. All groups go through a K slice while it lies
  // in the first cache. The last group may have rows that are no token's.
  template <class Store, class StoreSlice>
  MK_INLINE void in_groups(u32 strip, const Store& store, const StoreSlice& store_slice) const {
    f32x16 total[kPackedTokens] = {};
    const bool all = from == 0 && to == kKSlices;
    for (u32 k_slice = from; k_slice < to; ++k_slice) MK_ROLLED
    for (u32 first = 0; first < a.tokens; first += kGroupTokens)
      multiply<W, 1, kGroupTokens>(weights + strip * strip_bytes, strip_bytes, rows, first, k_slice,
                                   k_slice + 1, [&](u32, const f32x16(&sum)[1][kGroupTokens]) {
                                     MK_UNROLL
                                     for (u32 t = 0; t < kGroupTokens; ++t) {
                                       total[first + t] += sum[0][t];
                                       if (!all && first + t < a.tokens)
                                         store_slice(strip, k_slice, first + t, sum[0][t]);
                                     }
                                   });
    if (!all) return;
    store(strip, 0, a.tokens, total);
  }

  // operator() takes all tokens through strips [strip, end). The product has at most kPackedTokens tokens.
  template <class Store, class StoreSlice>
  MK_INLINE void operator()(u32 strip, u32 end, const Store& store, const StoreSlice& slice) const {
    if (a.tokens == kGroupTokens) return through<kGroupTokens>(strip, end, 0, store, slice);
    if constexpr (kPackedTokens > kGroupTokens)
      if (a.tokens > kGroupTokens) {
        MK_ROLLED
        for (; strip < end; ++strip) in_groups(strip, store, slice);
        return;
      }
    u32 token = 0;
    if (token + 4 <= a.tokens) through<4>(strip, end, token, store, slice), token += 4;
    if (token + 2 <= a.tokens) through<2>(strip, end, token, store, slice), token += 2;
    if (token < a.tokens) through<1>(strip, end, token, store, slice);
  }
};

}  // namespace mk
