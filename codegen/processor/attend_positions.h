// A query tile goes through a KV tile: queries are normed and rotated, positions are found in the cache, and
// sums are left in the partial.
#pragma once

#include "codegen/device/attend.h"
#include "codegen/processor/cache_math.h"
#include "codegen/processor/worker.h"

namespace mk {

// put_head() norms and rotates a head vector as rotate_head() does. Zeros fill the last vector of `to`.
MK_INLINE void put_head(const f32* x, const f32* norm, f32 eps, const f32* rope, u32 head_dim, f32* to) {
  const u32 half = head_dim / 2;
  f32 scale = 1;
  if (norm) {
    f32x16 sum = f32x16(0);
    each_vector(head_dim, [&](u32 i, u32 count) {
      const f32x16 v = load_part<f32x16>(x + i, count);
      sum = fma(v, v, sum);
    });
    scale = mk_rsqrt(sum_of(sum) / (f32)head_dim + eps);
  }
  if (head_dim % kVector != 0) store(to + head_dim / kVector * kVector, f32x16(0));
  each_vector(half, [&](u32 i, u32 count) {
    f32x16 low = load_part<f32x16>(x + i, count) * scale,
           high = load_part<f32x16>(x + half + i, count) * scale;
    if (norm) low *= load_part<f32x16>(norm + i, count), high *= load_part<f32x16>(norm + half + i, count);
    if (rope) {
      const f32x16 cosine = load_part<f32x16>(rope + i, count),
                   sine = load_part<f32x16>(rope + half + i, count);
      const f32x16 turned = low * cosine - high * sine;
      high = high * cosine + low * sine;
      low = turned;
    }
    store_part(to + i, low, count);
    store_part(to + half + i, high, count);
  });
}

// rope_of() is the row of the rope table for a position. Without a rotation it is null.
MK_INLINE const f32* rope_of(const AttendArgs& a, u32 position) {
  return a.rotated ? plain(a.rope) + (u64)position * a.head_dim : nullptr;
}

// Scales are those of a Merge.
struct Scales {
  f32 before, more;
};

// QueryPositions is the positions of a KV tile that a query tile sees. Positions count from the begin of the
// KV tile.
// kAhead is the positions from one that is read to one that is prefetched.
template <class C, u32 Ahead = 32>
struct QueryPositions {
  static constexpr u32 kAhead = Ahead;

  const AttendArgs& a;
  const Rows& block;
  const QueryTile& tile;
  const KvTile& kv_tile;
  u32 begin, end;  // positions that some row sees
  u64* place;      // [kPlaces]: where 16 positions lie in a cache

  MK_INLINE QueryPositions(const AttendArgs& args, const Rows& rows, const QueryTile& query_tile,
                           const KvTile& kv, u64* places)
      : a(args),
        block(rows),
        tile(query_tile),
        kv_tile(kv),
        begin(query_tile.begin > kv.begin ? query_tile.begin - kv.begin : 0),
        end(min(query_tile.end - kv.begin, kKvTile)),
        place(places) {
    for (u32 i = begin / kPlacePositions; i * kPlacePositions < end; ++i)
      place[i] = block.offset_of(a.cache, kv.begin + i * kPlacePositions);
  }

  // fetch() prefetches a head's vector.
  MK_INLINE void fetch(const char* at) const {
    constexpr u32 kLine = 64;
    for (u32 byte = 0; byte < a.head_dim * C::bytes; byte += kLine) prefetch_line(at + byte);
  }
  // The first rows of a row block prefetch for all. Behind the keys come the values, and behind these the
  // keys of the next KV tile.
  MK_INLINE void fetch_key(u32 p) const {
    if (tile.first != 0) return;
    if (p < end) return fetch(plain(a.cache.k) + offset_of_seen(p));
    if (p - end < end - begin) fetch(plain(a.cache.v) + offset_of_seen(begin + p - end));
  }
  MK_INLINE void fetch_value(u32 p) const {
    if (tile.first != 0) return;
    if (p < end) return fetch(plain(a.cache.v) + offset_of_seen(p));
    const u32 position = kv_tile.begin + kKvTile + (p - end);
    if (position < block.kv_len) fetch(plain(a.cache.k) + block.offset_of(a.cache, position));
  }

  // offset_of_seen() is where the position next to p that some row sees lies in a cache. Position p must lie
  // in the 16 positions of such a position.
  MK_INLINE u64 offset_of_seen(u32 p) const {
    const u32 seen = min(p < begin ? begin : p, end - 1);
    return place[p / kPlacePositions] + seen % kPlacePositions * a.cache.position_stride;
  }

  // weigh() makes weights of a row's scores, 16 positions at a time, and adds their sum to the partial.
  // put(p, weights, rounded) stores those of positions from p on, and gives them as rounded. The result
  // scales sums of values.
  template <class Put>
  MK_INLINE Scales weigh(u32 row, f32* scores, const Put& put) const {
    const Seen sees = tile.seen_by(a, row);
    const f32 scale = a.scale * Cached<C>::kFactor * (kScaled<C> ? a.cache.k_scale[block.head] : 1);
    f32x16 greatest_of_lane = f32x16(kNoScore), total_of_lane = f32x16(0);
    const u32 first = begin / kVector * kVector;
    for (u32 p = first; p < end; p += kVector) {
      const u32x16 place_in_seen = kLane + (kv_tile.begin + p - sees.first);
      const f32x16 score = place_in_seen < sees.count ? load<f32x16>(scores + p) * scale : f32x16(kNoScore);
      greatest_of_lane = greater(score, greatest_of_lane);
      store(scores + p, score);
    }
    const f32 greatest = greatest_of(greatest_of_lane);
    for (u32 p = first; p < end; p += kVector) {
      const f32x16 score = load<f32x16>(scores + p);
      const f32x16 mass = score == kNoScore ? f32x16(0) : exp2_of<f32x16, u32x16>(score - greatest);
      f32x16 rounded;
      put(p, mass, rounded);
      total_of_lane += rounded;
    }
    AS1 f32* left = a.partial_ml + partial_row(a, block, kv_tile.partial, tile.first + row) * 2;
    const Merge merge(kv_tile.first ? kNoScore : left[0], greatest);
    left[1] = merge(kv_tile.first ? 0 : left[1], sum_of(total_of_lane));
    left[0] = merge.greatest;
    return {merge.before, merge.more};
  }

  // leave() adds `count` columns of a row's sum to the partial. The first KV tile of a partial stores them.
  MK_INLINE void leave(u32 row, const Scales& scales, u32 column, f32x16 sum, u32 count) const {
    const f32 scale = Cached<C>::kFactor * (kScaled<C> ? a.cache.v_scale[block.head] : 1);
    f32* left =
        plain(a.partial_acc) + partial_row(a, block, kv_tile.partial, tile.first + row) * a.head_dim + column;
    sum *= scale;
    if (!kv_tile.first)
      sum = fma(sum, all_lanes(scales.more), load_part<f32x16>(left, count) * all_lanes(scales.before));
    store_part(left, sum, count);
  }
  // put_query() leaves a row's query, normed and rotated, in `to`.
  MK_INLINE void put_query(u32 row, f32* to) const {
    const u32 token = block.first + tile.token(row), head = block.head * tile.group + tile.head(row);
    put_head(plain(a.q) + (token * a.heads + head) * a.head_dim, plain(a.q_norm), a.q_eps,
             rope_of(a, tile.first_position + tile.token(row)), a.head_dim, to);
  }
};

}  // namespace mk
