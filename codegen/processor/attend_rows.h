// One thread lets some query rows attend to one KV tile. The rows share each key and value that is converted.
// A row's sums have the same order however many rows go together.
#pragma once

#include "codegen/processor/attend_positions.h"

namespace mk {

// Registers hold kValues vectors of sums of values. AVX-512 has 32 registers of a vector, AVX2 has 16 of half
// a vector.
#ifdef __AVX512F__
constexpr u32 kValues = 16, kMaxRows = 4;
#else
constexpr u32 kValues = 4, kMaxRows = 2;
#endif

// join() halves the lanes that a sum is spread over, from 2 * kLanes to kLanes. The result has the sums of
// both vectors.
template <u32 kLanes>
MK_INLINE f32x16 join(f32x16 a, f32x16 b) {
  if constexpr (kLanes == 8)
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  else if constexpr (kLanes == 4)
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  else if constexpr (kLanes == 2)
    return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
           __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  else
    return __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30) +
           __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
}
// join_all() joins N vectors. Lane sum_lane(n) has the sum of vector n if N is 16.
template <u32 N>
MK_INLINE f32x16 join_all(const f32x16* v) {
  if constexpr (N == 1)
    return v[0];
  else
    return join<kVector / N>(join_all<N / 2>(v), join_all<N / 2>(v + N / 2));
}
MK_INLINE constexpr u32 sum_lane(u32 n) {
  return n % 4 * 4 + n / 4;
}

// QueryRows is R query rows that go through a KV tile together. `tile` has these rows alone.
template <class C, u32 R>
struct QueryRows : QueryPositions<C> {
  static_assert(R * (kMaxHeadDim + kKvTile) * sizeof(f32) + kPlaces * sizeof(u64) <= kScratchBytes);
  using F = CacheMath<C>;
  using P = QueryPositions<C>;
  using P::a, P::block, P::tile, P::kv_tile, P::begin, P::end, P::kAhead;
  static constexpr u32 kAtOnce = kVector / R;  // positions whose scores fill a vector

  f32* q;       // [R][kMaxHeadDim], in the form's way
  f32* weight;  // [R][kKvTile]: scores first, then weights in the form's way

  MK_INLINE QueryRows(const Worker& w, const AttendArgs& args, const Rows& rows, const QueryTile& query_tile,
                      const KvTile& kv)
      : P(args, rows, query_tile, kv, (u64*)(scratch_of(w) + R * (kMaxHeadDim + kKvTile) * sizeof(f32))),
        q((f32*)scratch_of(w)),
        weight(q + R * kMaxHeadDim) {}

  MK_INLINE void put_queries() const {
    for (u32 row = 0; row < R; ++row) {
      f32* to = q + row * kMaxHeadDim;
      this->put_query(row, to);
      F::put_query(to, a.head_dim);
    }
  }

  // multiply() computes sums [first, first + N) of the scores at `key`, joined. Sum n is that of a row and a
  // position: lane sum_lane(n) of [R][kAtOnce].
  template <u32 N>
  MK_INLINE f32x16 multiply(const char* const* key, u32 first) const {
    if constexpr (N > F::sums) {
      return join<kVector / N>(multiply<N / 2>(key, first), multiply<N / 2>(key, first + N / 2));
    } else {
      f32x16 sum[N];
      MK_UNROLL
      for (u32 n = 0; n < N; ++n) sum[n] = f32x16(0);
      const u32 whole = a.head_dim / (2 * kVector) * (2 * kVector);
      const auto row_of = [&](u32 n) { return q + sum_lane(first + n) / kAtOnce * kMaxHeadDim; };
      const auto key_of = [&](u32 n) { return key[sum_lane(first + n) % kAtOnce]; };
      MK_ROLLED
      for (u32 i = 0; i < whole; i += 2 * kVector) {
        MK_UNROLL
        for (u32 n = 0; n < N; ++n) sum[n] = F::add_score(sum[n], row_of(n), key_of(n), i);
      }
      if (a.head_dim != whole) {
        MK_UNROLL
        for (u32 n = 0; n < N; ++n)
          sum[n] = F::add_last_score(sum[n], row_of(n), key_of(n), whole, a.head_dim);
      }
      return join_all<N>(sum);
    }
  }

  // put_scores() leaves the scores of each 16 positions of which some row sees one. Other positions are not
  // read: the nearest seen one takes their place.
  MK_INLINE void put_scores() const {
    const char* keys = plain(a.cache.k);
    for (u32 i = begin / kPlacePositions; i * kPlacePositions < end; ++i) {
      MK_ROLLED
      for (u32 p = i * kPlacePositions; p < (i + 1) * kPlacePositions; p += kAtOnce) {
        const char* key[kAtOnce];
        MK_UNROLL
        for (u32 k = 0; k < kAtOnce; ++k) {
          this->fetch_key(p + k + kAhead);
          key[k] = keys + this->offset_of_seen(p + k);
        }
        const f32x16 scores = multiply<kVector>(key, 0);
        MK_UNROLL
        for (u32 row = 0; row < R; ++row)
          __builtin_memcpy(weight + row * kKvTile + p, (const f32*)&scores + row * kAtOnce,
                           kAtOnce * sizeof(f32));
      }
    }
  }

  // add_values() adds up the weighted values of N vectors of columns from `column` on, or of the last `count`
  // columns where they are fewer. Values in the cache are finite (write_cache()), so a weight of 0 hides them
  // from a row.
  template <u32 N>
  MK_INLINE void add_values(const Scales* scales, u32 column, u32 count = N * kVector) const {
    const char* values = plain(a.cache.v) + column * C::bytes;
    f32x16 sum[R][N];
    MK_UNROLL
    for (u32 k = 0; k < R * N; ++k) sum[k / N][k % N] = f32x16(0);
    MK_ROLLED
    for (u32 p = begin / F::together * F::together; p < end; p += F::together) {
      const char* value[F::together];
      MK_UNROLL
      for (u32 i = 0; i < F::together; ++i) {
        if (column == 0) this->fetch_value(p + i + kAhead);
        value[i] = values + this->offset_of_seen(p + i);
      }
      MK_UNROLL
      for (u32 k = 0; k < N; k += 2) {
        const Columns v = F::columns(value, count - k * kVector);
        MK_UNROLL
        for (u32 i = 0; i < F::together; ++i) value[i] += 2 * kVector * C::bytes;
        MK_UNROLL
        for (u32 row = 0; row < R; ++row) {
          const typename F::Weights times = F::weights_at(weight + row * kKvTile, p);
          sum[row][k] = F::add(sum[row][k], times, v.a);
          sum[row][k + 1] = F::add(sum[row][k + 1], times, v.b);
        }
      }
    }
    MK_UNROLL
    for (u32 row = 0; row < R; ++row) {
      MK_UNROLL
      for (u32 k = 0; k < N; k += 2) {
        const u32 left = count - k * kVector;
        const Columns columns = F::in_order({sum[row][k], sum[row][k + 1]}, left);
        this->leave(row, scales[row], column + k * kVector, columns.a, min(left, kVector));
        if (left > kVector)
          this->leave(row, scales[row], column + (k + 1) * kVector, columns.b, min(left - kVector, kVector));
      }
    }
  }

  // add_all_values() takes N vectors of columns at a time from `column` on, then fewer.
  template <u32 N>
  MK_INLINE void add_all_values(const Scales* scales, u32 column) const {
    constexpr u32 kColumns = N * kVector;
    const u32 to = a.head_dim / kColumns * kColumns;
    MK_ROLLED
    for (; column < to; column += kColumns) add_values<N>(scales, column);
    if constexpr (N > 2)
      add_all_values<N / 2>(scales, to);
    else if (to < a.head_dim)
      add_values<2>(scales, to, a.head_dim - to);
  }

  MK_INLINE void attend() const {
    if (kv_tile.first)
      for (u32 p = begin; p < begin + kAhead; ++p) this->fetch_key(p);
    put_queries();
    put_scores();
    Scales scales[R];
    for (u32 row = 0; row < R; ++row) {
      f32* const weights = weight + row * kKvTile;
      scales[row] = this->weigh(row, weights, [&](u32 p, const f32x16& mass, f32x16& rounded) {
        rounded = F::put_weights(weights, p, mass);
      });
    }
    add_all_values<kValues / R>(scales, 0);
  }
};

}  // namespace mk
