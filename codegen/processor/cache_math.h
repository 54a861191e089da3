// Attention multiplies numbers of a cache in the form that suits their type: as f32, or as pairs of bf16.
#pragma once

#include "codegen/processor/cached.h"

namespace mk {

// CacheMath<C> is how attention multiplies a cache of type C, 32 columns at a time. Query rows and weights of
// positions begin as f32 and become what is multiplied, in place. The values of `together` positions
// are added at once. Registers hold `sums` vectors of sums of scores.
//
// put_query() converts a query row, which zeros follow up to a whole vector. add_score() adds the products of
// 32 columns from `column` on to the sum of a score; add_last_score() those of the last columns, fewer than
// 32. put_weights() converts the weights of 16 positions from p on, and returns them as rounded.
// weights_at() reads what add_values() takes for p: the weights of `together` positions, in all lanes.
template <class C>
struct CacheMath {
  typedef f32x16 Weights;
  static constexpr u32 together = 1;
#ifdef __AVX512F__
  static constexpr u32 sums = 8;
#else
  static constexpr u32 sums = 4;
#endif

  MK_INLINE static void put_query(f32* q, u32 head_dim) {
    if (!Cached<C>::kEvens) return;
    for (u32 i = 0; i + 2 * kVector <= head_dim; i += 2 * kVector) {
      const Columns columns = Columns{load<f32x16>(q + i), load<f32x16>(q + i + kVector)}.evens();
      store(q + i, columns.a);
      store(q + i + kVector, columns.b);
    }
  }
  MK_INLINE static f32x16 add_score(f32x16 sum, const f32* q, const char* key, u32 column) {
    const Columns k = Cached<C>::columns(key + column * C::bytes);
    return fma(load<f32x16>(q + column + kVector), k.b, fma(load<f32x16>(q + column), k.a, sum));
  }
  MK_INLINE static f32x16 add_last_score(f32x16 sum, const f32* q, const char* key, u32 column,
                                         u32 head_dim) {
    for (u32 i = column; i < head_dim; i += kVector)
      sum = fma(load<f32x16>(q + i), load_last<C>(key + i * C::bytes, min(head_dim - i, kVector)), sum);
    return sum;
  }
  MK_INLINE static f32x16 put_weights(f32* weights, u32 p, f32x16 v) {
    store(weights + p, v);
    return v;
  }
  MK_INLINE static Weights weights_at(const f32* weights, u32 p) { return all_lanes(weights[p]); }
  // columns() reads 32 columns of the values of `together` positions. `count` is 32, or how many columns are
  // left. add() adds them to sums, which in_order() brings into the order of columns.
  MK_INLINE static Columns columns(const char* const* value, u32 count) {
    if (count >= 2 * kVector) return Cached<C>::columns(value[0]);
    const u32 low = min(count, kVector);
    return {load_last<C>(value[0], low), load_last<C>(value[0] + low * C::bytes, count - low)};
  }
  MK_INLINE static f32x16 add(f32x16 sum, Weights weights, f32x16 columns) {
    return fma(weights, columns, sum);
  }
  MK_INLINE static Columns in_order(Columns v, u32 count) {
    return Cached<C>::kEvens && count >= 2 * kVector ? v.in_order() : v;
  }
};

#ifdef __AVX512BF16__
// Pairs of bf16 are multiplied by vdpbf16ps, which adds both products. A score takes two columns at once, and
// a sum of values two positions. Queries and weights are rounded to bf16, as the GPU's bodies round them.
template <>
struct CacheMath<Bf16> {
  typedef u32x16 Weights;
  static constexpr u32 together = 2, sums = 16;

  // load_columns() reads up to 32 columns. The others are 0.
  MK_INLINE static __m512i load_columns(const void* p, u32 count) {
    if (count >= 2 * kVector) return (__m512i)load<u32x16>(p);
    will_read(p, count * Bf16::bytes);
    return _mm512_maskz_loadu_epi16((1u << count) - 1, p);
  }
  MK_INLINE static void put_query(f32* q, u32 head_dim) {
    uint16_t* to = (uint16_t*)q;
    const u32 end = (head_dim + kVector - 1) / kVector * kVector;
    for (u32 i = 0; i < end; i += kVector) store(to + i, dot_lanes(load<f32x16>(q + i)));
    if (end % (2 * kVector) != 0) store(to + end, u16x16(0));
  }
  MK_INLINE static f32x16 add_score(f32x16 sum, const f32* q, const char* key, u32 column) {
    return add_last_score(sum, q, key, column, column + 2 * kVector);
  }
  MK_INLINE static f32x16 add_last_score(f32x16 sum, const f32* q, const char* key, u32 column,
                                         u32 head_dim) {
    return add_dots(sum, load<u32x16>((const uint16_t*)q + column),
                    (u32x16)load_columns(key + column * Bf16::bytes, head_dim - column));
  }
  MK_INLINE static f32x16 put_weights(f32* weights, u32 p, f32x16 v) {
    const u16x16 halves = dot_lanes(v);
    store((uint16_t*)weights + p, halves);
    return Stored<Bf16>::widen(halves);
  }
  MK_INLINE static Weights weights_at(const f32* weights, u32 p) {
    return u32x16(load<u32>((const uint16_t*)weights + p));
  }
  MK_INLINE static Columns columns(const char* const* value, u32 count) {
    const __m512i first = load_columns(value[0], count), second = load_columns(value[1], count);
    return {(f32x16)_mm512_unpacklo_epi16(first, second), (f32x16)_mm512_unpackhi_epi16(first, second)};
  }
  MK_INLINE static f32x16 add(f32x16 sum, Weights weights, f32x16 columns) {
    return add_dots(sum, (u32x16)columns, weights);
  }
  MK_INLINE static Columns in_order(Columns v, u32) {
    return {__builtin_shufflevector(v.a, v.b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23),
            __builtin_shufflevector(v.a, v.b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31)};
  }
};
#endif

}  // namespace mk
