// Products of strips of 16 weight rows with the rows of a step.
//
// A lane of a vector is a row of the strip. A step along the columns loads the strip's weights once and
// multiplies them with a value of each token, which goes to all lanes. The sums of a K slice are added in the
// order of its columns, and then the K slices in order. So the result of a strip and token depends neither on
// the strips and tokens beside it, nor on how the columns are split into parts.
#pragma once

#include "codegen/processor/layout.h"
#include "codegen/processor/worker.h"

namespace mk {

// Steps<W> is how weights of a format are multiplied, one step of `cols` columns at a time, in `parts`. A
// part takes one X of a row. load() gives a part of a step's weights, and step() adds their products with X.
// put() stores 16 columns of a row as X.
template <class W, class C>
struct FmaSteps {
  static constexpr u32 cols = 1, parts = 1, bytes = kStripRows * W::row.bits / 8;
  typedef f32 X;
  typedef f32x16 Weights;
  MK_INLINE static Weights load(const char* p, u32) { return load16<C>(p); }
  MK_INLINE static f32x16 step(f32x16 sum, Weights w, X x) { return fma(w, all_lanes(x), sum); }
  MK_INLINE static void put(X* to, f32x16 values) { store(to, values); }
};
template <class W>
struct Steps;
template <>
struct Steps<WeightsF32> : FmaSteps<WeightsF32, F32> {};
template <>
struct Steps<WeightsF16> : FmaSteps<WeightsF16, F16> {};
template <>
struct Steps<WeightsE4m3> : FmaSteps<WeightsE4m3, E4m3> {};
// Formats with groups have group_scales(), the scales of a group for each row.
template <>
struct Steps<WeightsE4m3Block> : FmaSteps<WeightsE4m3Block, E4m3> {
  MK_INLINE static f32x16 group_scales(const char* p) {
    const f32x4 v = mk::load<f32x4>(p);
    return __builtin_shufflevector(v, v, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  }
};

#ifdef __AVX512BF16__
typedef __bf16 bf16x32 __attribute__((ext_vector_type(32)));
template <>
struct Steps<WeightsBf16> {
  static constexpr u32 cols = 2, parts = 1, bytes = 2 * kStripRows * sizeof(uint16_t);
  typedef u32 X;
  typedef u32x16 Weights;
  MK_INLINE static Weights load(const char* p, u32) { return mk::load<u32x16>(p); }
  MK_INLINE static f32x16 step(f32x16 sum, Weights w, X x) {
    typedef __bf16 Pairs __attribute__((vector_size(64)));
    typedef f32 Sums __attribute__((vector_size(64)));
    return (f32x16)__builtin_ia32_dpbf16ps_512((Sums)sum, __builtin_bit_cast(Pairs, w),
                                               __builtin_bit_cast(Pairs, u32x16(x)));
  }
  MK_INLINE static void put(X* to, f32x16 values) {
    store(to, __builtin_convertvector(bf16_bits<u32x16>(values), u16x16));
  }
};
// Int4Steps has eight columns of each row in a word. A table gives the bf16 of a code.
struct Int4Steps : Steps<WeightsBf16> {
  static constexpr u32 cols = kWordCodes, parts = kWordCodes / 2, bytes = kStripRows * sizeof(u32);
  MK_INLINE static Weights load(const char* p, u32 part) {
    typedef short Halves __attribute__((vector_size(64)));
    constexpr Halves kValues = {(short)0xc100, (short)0xc0e0, (short)0xc0c0,
                                (short)0xc0a0, (short)0xc080, (short)0xc040,
                                (short)0xc000, (short)0xbf80, 0,
                                0x3f80,        0x4000,        0x4040,
                                0x4080,        0x40a0,        0x40c0,
                                0x40e0};  // -8 to 7
    const u32x16 codes = mk::load<u32x16>(p) >> code_shift(2 * part) & 0x000f000fu;
    return __builtin_bit_cast(u32x16,
                              __builtin_ia32_permvarhi512(kValues, __builtin_bit_cast(Halves, codes)));
  }
  MK_INLINE static f32x16 group_scales(const char* p) { return load16<F16>(p); }
};
#else
struct Int4Steps {
  static constexpr u32 cols = kWordCodes, parts = kWordCodes, bytes = kStripRows * sizeof(u32);
  typedef f32 X;
  typedef f32x16 Weights;
  MK_INLINE static Weights load(const char* p, u32 part) {
    const u32x16 codes = mk::load<u32x16>(p) >> code_shift(part) & 15u;
    return __builtin_convertvector((i32x16)codes - 8, f32x16);
  }
  MK_INLINE static f32x16 step(f32x16 sum, Weights w, X x) { return fma(w, all_lanes(x), sum); }
  MK_INLINE static void put(X* to, f32x16 values) { store(to, values); }
  MK_INLINE static f32x16 group_scales(const char* p) { return load16<F16>(p); }
};
template <>
struct Steps<WeightsBf16> {
  static constexpr u32 cols = 2, parts = 2, bytes = 2 * kStripRows * sizeof(uint16_t);
  typedef f32 X;
  typedef f32x16 Weights;
  MK_INLINE static Weights load(const char* p, u32 part) {
    const u32x16 words = mk::load<u32x16>(p);
    return __builtin_bit_cast(f32x16, part == 0 ? words << 16 : words & 0xffff0000u);
  }
  MK_INLINE static f32x16 step(f32x16 sum, Weights w, X x) { return fma(w, all_lanes(x), sum); }
  MK_INLINE static void put(X* to, f32x16 values) { store(to, values); }
};
#endif

template <>
struct Steps<WeightsInt4> : Int4Steps {};
template <>
struct Steps<WeightsInt4Group32> : Int4Steps {};

// Groups of tokens that go through strips together, and how many strips then go together. Sums are kept in
// registers. Few tokens take one strip after the other, because one stream of memory is faster than two.
// Formats with groups of columns do so always, because a group has sums of its own.
#ifdef __AVX512F__
constexpr u32 kGroupTokens = 8;
template <class W>
MK_INLINE constexpr u32 together(u32 tokens) {
  return tokens > 2 && !W::grouped ? 2 : 1;
}
#else
constexpr u32 kGroupTokens = 4;
template <class W>
MK_INLINE constexpr u32 together(u32 tokens) {
  return tokens == 2 && !W::grouped ? 2 : 1;
}
#endif
constexpr u32 kPrefetchBytes = 4096;  // of a strip, between what is multiplied and what is prefetched to L2
constexpr u32 kLineBytes = 64;
// kRowGap is the words between two rows, which keep rows of 2^n columns out of each other's cache sets.
constexpr u32 kRowGap = 16;

MK_INLINE u32 padded_cols(const ProductArgs& a, const WeightFormat& format) {
  return (a.tiles - 1) * format.tile_cols + a.tail_cols;
}
MK_INLINE u64 strip_bytes_of(const ProductArgs& a, const WeightFormat& format) {
  return (u64)(a.tiles - 1) * full_tile_bytes(format) + last_tile_bytes(format, a.tail_cols);
}

// norm_scale() is the scale of a norm of row `row` of x, from the sums of squares that the row's producer
// left.
MK_INLINE f32 norm_scale(const ProductArgs& a, u32 row) {
  const EpilogueArgs& e = *plain(a.epilogue);
  const f32* parts = plain(e.sum_squares) + (u64)row * e.sumsq_partials;
  f32 sum = 0;
  for (u32 i = 0; i < e.sumsq_partials; ++i) sum += parts[i];
  return mk_rsqrt(sum / (f32)a.cols + e.eps);
}

// Rows are the rows of x as steps take them, in the worker's memory: normalised, and 0 past the last column.
template <class W>
struct Rows {
  typedef Steps<W> S;
  typedef typename S::X X;
  X* rows;
  u32 padded, stride;  // padded columns of a row, and X from one row to the next
  MK_INLINE Rows(char* memory, u32 padded_cols)
      : rows((X*)memory), padded(padded_cols), stride(padded / S::cols * S::parts + kRowGap) {}
  MK_INLINE Rows(const Worker& w, const ProductArgs& a) : Rows(rows_of(w), padded_cols(a, W::row)) {}
  MK_INLINE const X* of(u32 token) const { return rows + (u64)token * stride; }

  // put() takes row `row` of x as that of a token.
  MK_INLINE void put(const Worker& w, const ProductArgs& a, u32 token, u32 row) const {
    const EpilogueArgs& e = *plain(a.epilogue);
    const char* from = (const char*)plain(a.x) + (u64)row * a.cols * (a.x_bf16 ? Bf16::bytes : F32::bytes);
    const f32* norm = plain(a.norm);
    f32 scale = 1;
    thread_of(w).scale[token] = 1;
    if (a.normed) {
      f32x16 squares = all_lanes(0);
      for (u32 col = 0; col < a.cols; col += kVector) {
        const f32x16 v = load16<F32>(from + col * F32::bytes, a.cols - col);
        squares = fma(v, v, squares);
      }
      scale = mk_rsqrt(sum_of(squares) / (f32)a.cols + e.eps);
    } else if (a.x_bf16 && e.sumsq_partials != 0) {
      thread_of(w).scale[token] = norm_scale(a, row);
    }
    X* to = rows + (u64)token * stride;
    for (u32 col = 0; col < padded; col += kVector) {
      const u32 left = col < a.cols ? a.cols - col : 0;
      f32x16 v = a.x_bf16 ? load16<Bf16>(from + col * Bf16::bytes, left)
                          : load16<F32>(from + col * F32::bytes, left);
      if (a.normed) v = v * all_lanes(scale) * load16<F32>((const char*)(norm + col), left);
      S::put(to + col / S::cols * S::parts, v);
    }
  }
};

// add_steps() adds the products of `steps` steps of `Strips` strips with `Tokens` tokens to `sum`. `weights`
// are those of the first strip, and `x` those of the first token.
template <class W, u32 Strips, u32 Tokens>
MK_INLINE void add_steps(const char* weights, u64 strip_bytes, const typename Steps<W>::X* x, u32 stride,
                         u32 steps, f32x16 (&sum)[Strips][Tokens]) {
  typedef Steps<W> S;
  _Pragma("clang loop unroll_count(2)") for (u32 i = 0; i < steps; ++i) {
    const char* at = weights + (u64)i * S::bytes;
    MK_UNROLL
    for (u32 s = 0; s < Strips; ++s)
      if (S::bytes >= kLineBytes || i % (kLineBytes / S::bytes) == 0)
        __builtin_prefetch(at + s * strip_bytes + kPrefetchBytes, 0, 2);
    MK_UNROLL
    for (u32 part = 0; part < S::parts; ++part) {
      typename S::Weights w[Strips];
      MK_UNROLL
      for (u32 s = 0; s < Strips; ++s) w[s] = S::load(at + s * strip_bytes, part);
      MK_UNROLL
      for (u32 t = 0; t < Tokens; ++t) {
        const typename S::X value = x[(u64)t * stride + i * S::parts + part];
        MK_UNROLL
        for (u32 s = 0; s < Strips; ++s) sum[s][t] = S::step(sum[s][t], w[s], value);
      }
    }
  }
}

// add_groups() is add_steps() for a format with groups. The sums of a group are multiplied with its scales.
template <class W, u32 Strips, u32 Tokens>
MK_INLINE void add_groups(const char* weights, u64 strip_bytes, const typename Steps<W>::X* x, u32 stride,
                          u32 groups, f32x16 (&sum)[Strips][Tokens]) {
  typedef Steps<W> S;
  constexpr u32 steps = W::row.group_cols / S::cols;
  for (u32 group = 0; group < groups; ++group) {
    f32x16 of[Strips][Tokens] = {};
    const char* at = weights + group_begin(W::row, group);
    add_steps<W, Strips, Tokens>(at, strip_bytes, x + (u64)group * steps * S::parts, stride, steps, of);
    MK_UNROLL
    for (u32 s = 0; s < Strips; ++s) {
      const f32x16 scales = S::group_scales(at + s * strip_bytes + steps * S::bytes);
      MK_UNROLL
      for (u32 t = 0; t < Tokens; ++t) sum[s][t] = fma(of[s][t], scales, sum[s][t]);
    }
  }
}

// multiply() multiplies `Strips` strips with `Tokens` tokens over K slices [from, to). at_end(k_slice, sums)
// gets the sums of each K slice, [strip][token]. `strips` is where the first strip begins.
template <class W, u32 Strips, u32 Tokens, class AtEnd>
MK_INLINE void multiply(const char* strips, u64 strip_bytes, const Rows<W>& rows, u32 token, u32 from, u32 to,
                        const AtEnd& at_end) {
  typedef Steps<W> S;
  const u32 cols = rows.padded / kKSlices, steps = cols / S::cols;
  const u64 k_slice_bytes = (u64)kStripRows * cols * W::row.bits / 8 + group_scale_bytes(W::row, cols);
  const typename S::X* x = rows.of(token) + (u64)from * steps * S::parts;
  const char* weights = strips + from * k_slice_bytes;
  for (u32 k_slice = from; k_slice < to; ++k_slice) {
    f32x16 sum[Strips][Tokens] = {};
    if constexpr (W::grouped)
      add_groups<W, Strips, Tokens>(weights, strip_bytes, x, rows.stride, cols / W::row.group_cols, sum);
    else
      add_steps<W, Strips, Tokens>(weights, strip_bytes, x, rows.stride, steps, sum);
    x += steps * S::parts;
    weights += k_slice_bytes;
    if constexpr (W::scaled) {
      MK_UNROLL
      for (u32 s = 0; s < Strips; ++s) {
        const f32x16 scale = load<f32x16>(strips + s * strip_bytes + scales_offset(strip_bytes));
        MK_UNROLL
        for (u32 t = 0; t < Tokens; ++t) sum[s][t] = fma(sum[s][t], scale, all_lanes(0));
      }
    }
    at_end(k_slice, sum);
  }
}

// Product is the product of strips with prepared rows. store(strip, token, sums) gets the sums over all K
// slices; store_slice(strip, k_slice, token, sums) those of single ones.
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
    for (u32 s = 0; s < Strips; ++s) {
      MK_ROLLED
      for (u32 t = 0; t < Tokens; ++t) store(strip + s, token + t, total[s][t]);
    }
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

  template <class Store, class StoreSlice>
  MK_INLINE void operator()(u32 strip, u32 end, const Store& store, const StoreSlice& slice) const {
    u32 token = 0;
    MK_ROLLED
    for (; token + kGroupTokens <= a.tokens; token += kGroupTokens)
      through<kGroupTokens>(strip, end, token, store, slice);
    if (token + 4 <= a.tokens) through<4>(strip, end, token, store, slice), token += 4;
    if (token + 2 <= a.tokens) through<2>(strip, end, token, store, slice), token += 2;
    if (token < a.tokens) through<1>(strip, end, token, store, slice);
  }
};

}  // namespace mk
