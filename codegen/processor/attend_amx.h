// Attention to caches of bf16 by AMX (amx.h). A query tile's rows fill a tile. Keys are multiplied where they
// lie, as rows of a tile. Queries, weights and values are laid out in the worker's memory. As in other
// bodies, queries and weights are rounded to bf16.
//
// A row's sums have the same order however many rows go together.
#pragma once

#include "codegen/processor/amx.h"
#include "codegen/processor/attend_positions.h"

#ifdef __AMX_BF16__
namespace mk {

// exchange() swaps two bits of an element's place, S in the lane and S in the number of the vector: a becomes
// the elements whose lanes lack S, b those whose lanes have it.
template <u32 S>
MK_INLINE void exchange(u32x16& a, u32x16& b) {
  const u32x16 first = a, second = b;
  if constexpr (S == 1) {
    a = __builtin_shufflevector(first, second, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
    b = __builtin_shufflevector(first, second, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
  } else if constexpr (S == 2) {
    a = __builtin_shufflevector(first, second, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
    b = __builtin_shufflevector(first, second, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  } else if constexpr (S == 4) {
    a = __builtin_shufflevector(first, second, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
    b = __builtin_shufflevector(first, second, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
  } else {
    a = __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    b = __builtin_shufflevector(first, second, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
}
template <u32 S>
MK_INLINE void exchange_all(u32x16 (&v)[16]) {
  MK_UNROLL
  for (u32 i = 0; i < 16; ++i)
    if ((i & S) == 0) exchange<S>(v[i], v[i + S]);
}
// transpose() makes row i of v column i.
MK_INLINE void transpose(u32x16 (&v)[16]) {
  exchange_all<1>(v);
  exchange_all<2>(v);
  exchange_all<4>(v);
  exchange_all<8>(v);
}

constexpr u32 kAmxColumnTiles = 4;  // tiles of 16 columns of values that are summed at once

// AmxAttendMemory is the memory of a worker for a query tile and a KV tile. Words are pairs of bf16.
struct alignas(64) AmxAttendMemory {
  u32x16 q[kMaxHeadDim / kAmxCols][16];                // [32 columns][pair of columns], a lane for each row
  u32x16 products[kPlacePositions];                    // [position]: scores, a lane for each row
  f32x16 scores[kAmxRows][kKvTile / kPlacePositions];  // [row][16 positions]
  u32x16 weights[kKvTile / kAmxCols][kAmxRows];        // [32 positions][row], a lane for each pair
  u32x16 values[kKvTile / kAmxCols][kAmxColumnTiles]
               [16];                                     // [32 positions][16 columns][pair], a lane a column
  f32x16 sums[kAmxColumnTiles][kAmxRows];                // [16 columns][row]
  u32x16 keys[kMaxHeadDim / kAmxCols][kPlacePositions];  // [32 columns][position]: keys that are copied
  f32 row[kMaxHeadDim + kVector];
  u64 place[kPlaces];
};
static_assert(sizeof(AmxAttendMemory) <= kUnpackedBytes && kPlacePositions == kAmxRows &&
              kQueryTileRows == kAmxRows);
MK_INLINE AmxAttendMemory& amx_attend_memory_of(const Worker& w) {
  return *(AmxAttendMemory*)plain(w.shared + kUnpackedOffset);
}

// AmxQueryTile is a query tile that goes through a KV tile. Multiplications take less time than memory does,
// so values are prefetched while keys are multiplied, and keys of the next KV tile while values are.
struct AmxQueryTile : QueryPositions<Bf16, kKvTile> {
  using F = CacheMath<Bf16>;
  AmxAttendMemory& memory;

  MK_INLINE AmxQueryTile(AmxAttendMemory& m, const AttendArgs& args, const Rows& rows,
                         const QueryTile& query_tile, const KvTile& kv)
      : QueryPositions(args, rows, query_tile, kv, m.place), memory(m) {}

  MK_INLINE u32 column_blocks() const { return (a.head_dim + kAmxCols - 1) / kAmxCols; }

  // put_queries() lays out the queries. Columns past the last are 0. Lanes past the last row hold
  // stale numbers, which reach no other lane.
  MK_INLINE void put_queries() const {
    const u32 blocks = column_blocks();
    for (u32 row = 0; row < tile.count; ++row) {
      put_query(row, memory.row);
      for (u32 i = 0; i < blocks; ++i)
        for (u32 at = 0; at < kAmxCols; at += kVector) {
          const u32 col = i * kAmxCols + at, left = a.head_dim > col ? a.head_dim - col : 0;
          const f32x16 columns = first_lanes(load<f32x16>(memory.row + col), left);
          store((uint16_t*)&memory.q[i][row] + at, dot_lanes(columns));
        }
    }
    for (u32 i = 0; i < blocks; ++i) transpose(memory.q[i]);
  }

  // copy_keys() copies the keys of 16 positions from `first` on. Positions that no row sees are those of the
  // nearest seen one.
  MK_INLINE void copy_keys(u32 first) const {
    for (u32 i = 0; i < kPlacePositions; ++i) {
      const char* const key = plain(a.cache.k) + offset_of_seen(first + i);
      for (u32 n = 0; n < column_blocks(); ++n)
        memory.keys[n][i] =
            (u32x16)F::load_columns(key + n * kAmxRowBytes, min(kAmxCols, a.head_dim - n * kAmxCols));
    }
  }

  // put_scores() leaves the scores of each 16 positions of which some row sees one.
  MK_INLINE void put_scores() const {
    for (u32 first = begin / kPlacePositions * kPlacePositions; first < end; first += kPlacePositions) {
      for (u32 i = 0; i < kPlacePositions; ++i) fetch_key(first + i + kAhead);
      const bool whole = first >= begin && first + kPlacePositions <= end && a.head_dim % kAmxCols == 0;
      if (!whole) copy_keys(first);
      const char* keys = whole ? plain(a.cache.k) + place[first / kPlacePositions] : (const char*)memory.keys;
      const u64 position_bytes = whole ? a.cache.position_stride : kAmxRowBytes;
      const u64 block_bytes = whole ? kAmxRowBytes : sizeof memory.keys[0];
      _tile_zero(0);
      MK_ROLLED
      for (u32 i = 0; i < column_blocks(); ++i, keys += block_bytes) {
        for (u32 p = 0; p < kPlacePositions; ++p) will_read(keys + p * position_bytes, kAmxRowBytes);
        _tile_loadd(4, keys, position_bytes);
        _tile_loadd(6, memory.q[i], kAmxRowBytes);
        _tile_dpbf16ps(0, 4, 6);
      }
      _tile_stored(0, memory.products, kAmxRowBytes);
      transpose(memory.products);
      for (u32 row = 0; row < tile.count; ++row)
        memory.scores[row][first / kPlacePositions] = (f32x16)memory.products[row];
    }
  }

  // put_weights() makes a row's weights of its scores. Weights fill whole tiles.
  MK_INLINE Scales put_weights(u32 row) const {
    const auto put = [&](u32 p, u16x16 halves) {
      store((uint16_t*)&memory.weights[p / kAmxCols][row] + p % kAmxCols, halves);
    };
    if (begin % kAmxCols >= kVector) put(begin / kAmxCols * kAmxCols, u16x16(0));
    const u32 last = (end + kVector - 1) / kVector * kVector;
    if (last % kAmxCols != 0) put(last, u16x16(0));
    return weigh(row, (f32*)memory.scores[row], [&](u32 p, const f32x16& mass, f32x16& rounded) {
      const u16x16 halves = dot_lanes(mass);
      put(p, halves);
      rounded = Stored<Bf16>::widen(halves);
    });
  }

  // put_values() lays out columns from `column` on of the values of 32 positions. Positions that no row sees
  // are 0.
  MK_INLINE void put_values(u32 i, u32 column, u32 tiles) const {
    const u32 left = a.head_dim - column;
    MK_ROLLED
    for (u32 pair = 0; pair < 16; ++pair) {
      const u32 p = i * kAmxCols + 2 * pair;
      const auto half = [&](u32 position, u32 at) {
        if (position < begin || position >= end || at >= left) return _mm512_setzero_si512();
        const char* const value = plain(a.cache.v) + offset_of_seen(position);
        return F::load_columns(value + (column + at) * Bf16::bytes, min(kAmxCols, left - at));
      };
      if (column == 0) fetch_value(p + kAhead), fetch_value(p + 1 + kAhead);
      MK_UNROLL
      for (u32 t = 0; t < kAmxColumnTiles; t += 2) {
        if (t >= tiles) break;
        typedef uint16_t u16x32 __attribute__((ext_vector_type(32)));
        const u16x32 even = (u16x32)half(p, t * kVector), odd = (u16x32)half(p + 1, t * kVector);
        memory.values[i][t][pair] =
            (u32x16)__builtin_shufflevector(even, odd, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39,
                                            8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
        memory.values[i][t + 1][pair] = (u32x16)__builtin_shufflevector(
            even, odd, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24, 56, 25, 57, 26, 58,
            27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
      }
    }
  }

  // add_values() adds up the weighted values of columns from `column` on.
  MK_INLINE void add_values(const Scales* scales, u32 column) const {
    const u32 columns = min(kAmxColumnTiles * kVector, a.head_dim - column),
              tiles = (columns + kVector - 1) / kVector;
    const u32 first = begin / kAmxCols;
    for (u32 i = first; i * kAmxCols < end; ++i) put_values(i, column, tiles);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    MK_ROLLED
    for (u32 i = first; i * kAmxCols < end; ++i) {
      _tile_loadd(4, memory.weights[i], kAmxRowBytes);
      _tile_loadd(6, memory.values[i][0], kAmxRowBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, memory.values[i][1], kAmxRowBytes);
      _tile_dpbf16ps(1, 4, 7);
      if (tiles <= 2) continue;
      _tile_loadd(6, memory.values[i][2], kAmxRowBytes);
      _tile_dpbf16ps(2, 4, 6);
      _tile_loadd(7, memory.values[i][3], kAmxRowBytes);
      _tile_dpbf16ps(3, 4, 7);
    }
    _tile_stored(0, memory.sums[0], kAmxRowBytes);
    _tile_stored(1, memory.sums[1], kAmxRowBytes);
    _tile_stored(2, memory.sums[2], kAmxRowBytes);
    _tile_stored(3, memory.sums[3], kAmxRowBytes);
    for (u32 row = 0; row < tile.count; ++row)
      for (u32 t = 0; t < tiles; ++t)
        leave(row, scales[row], column + t * kVector, memory.sums[t][row],
              min(kVector, columns - t * kVector));
  }

  MK_INLINE void attend() const {
    const AmxTiles tiles;
    if (kv_tile.first)
      for (u32 p = begin; p < begin + kAhead; ++p) fetch_key(p);
    put_queries();
    put_scores();
    Scales scales[kAmxRows];
    for (u32 row = 0; row < tile.count; ++row) scales[row] = put_weights(row);
    MK_ROLLED
    for (u32 column = 0; column < a.head_dim; column += kAmxColumnTiles * kVector) add_values(scales, column);
  }
};

}  // namespace mk
#endif
