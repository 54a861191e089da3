// The loader brings keys and values of positions that were in the cache before the step. The stages are in
// the order in which attend takes them. The loader needs the step's lists and waits for no event.
#include "codegen/device/attend.h"
#include "codegen/device/loaders.h"

namespace mk {

namespace {

constexpr u32 kPlacesAtOnce = 4;  // groups of kPlacePositions positions whose places are read together

// find_places() stores where the positions of the KV tile at `first` lie. All lanes have used the places of
// the KV tile before, because each stage ends with a barrier.
MK_INLINE void find_places(const Worker& w, const AttendArgs& a, const Rows& block, u32 first) {
  const u32 position = first + w.lane() * kPlacePositions;
  if (w.lane() < kPlaces && position < block.kv_len) *w.place(w.lane()) = block.offset_of(a.cache, position);
  mk_warp_sync();
}

// load_all_rows() copies all positions of a stage. `first` is the stage's first position in the KV tile.
// `vectors` is where this lane's bytes of a group's first position lie. The places of several groups are read
// at once. The addresses of a lane are fixed distances apart.
template <class C>
MK_INLINE void load_all_rows(const Worker& w, AS1 const char* vectors, u64 stride, AS3 char* stage,
                             u32 first) {
  using S = StageRows<C>;
  constexpr u32 kRows = kWarpLanes / S::kChunks;  // positions that the warp copies at once
  const u32 row = w.lane() / S::kChunks, byte = w.lane() % S::kChunks * kChunkBytes;
  vectors += row * stride;
  MK_ROLLED
  for (u32 group = 0; group < S::kPositions; group += kPlacesAtOnce * kPlacePositions) {
    u64 places[kPlacesAtOnce];
    MK_UNROLL
    for (u32 i = 0; i < kPlacesAtOnce; ++i) places[i] = *w.place((first + group) / kPlacePositions + i);
    MK_UNROLL
    for (u32 i = 0; i < kPlacesAtOnce; ++i) {
      AS1 const char* from = vectors + places[i];
      MK_UNROLL
      for (u32 j = 0; j < kPlacePositions; j += kRows, from += kRows * stride)
        mk_async_load16(
            stage + (group + i * kPlacePositions + j) * S::kPitch + S::at(row, byte ^ S::swizzle(j)), from);
    }
  }
}

// load_rows() fills positions [from, to) of a stage, from `column` on. `first` is the stage's first position
// in the KV tile. Positions below `cached_end` get their vectors, and the others the addresses of theirs.
template <class C>
MK_INLINE void load_rows(const Worker& w, const AttendArgs& a, AS1 const char* cache, AS3 char* stage,
                         u32 first, u32 column, u32 from, u32 to, u32 cached_end) {
  using S = StageRows<C>;
  const u32 byte = w.lane() % S::kChunks * kChunkBytes, at = column * C::bytes + byte;
  const bool there = at < a.head_dim * C::bytes;
  if (from == 0 && min(to, cached_end) >= S::kPositions) {
    if (there) load_all_rows<C>(w, cache + at, a.cache.position_stride, stage, first);
    return;
  }
  MK_ROLLED
  for (u32 group = from / kPlacePositions * kPlacePositions; group < to; group += kPlacePositions) {
    AS1 const char* vectors = cache + *w.place((first + group) / kPlacePositions);
    const auto for_rows = [&](auto load) {
      MK_UNROLL
      for (u32 i = 0; i < kPlacePositions; i += kWarpLanes / S::kChunks) {
        const u32 row = i + w.lane() / S::kChunks;
        load(group + row, vectors + row * a.cache.position_stride);
      }
    };
    const auto load_row = [&](u32 position, AS1 const char* vector) {
      if (there) mk_async_load16(stage + S::at(position, byte), vector + at);
    };
    if (group >= from && group + kPlacePositions <= min(to, cached_end)) {
      for_rows(load_row);
      continue;
    }
    for_rows([&](u32 position, AS1 const char* vector) {
      if (position < from || position >= to) return;
      if (position < cached_end) return load_row(position, vector);
      if (byte == 0) *(AS3 u64*)(stage + S::at(position, 0)) = (u64)vector;
    });
  }
}

// stream_query_tile() fills the stages of keys or values for a query tile. The result is false once the
// launch is over.
template <class C>
MK_INLINE bool stream_query_tile(Worker& w, const AttendArgs& a, const QueryTile& tile, AS1 const char* cache,
                                 u32 kv_tile, u32 cached_end) {
  using S = StageRows<C>;
  MK_ROLLED
  for (u32 column = 0; column < a.head_dim; column += kValueColumns) MK_ROLLED
  for (u32 from = 0; from < kKvTile; from += S::kPositions) {
    const u32 first = kv_tile + from;
    if (!tile.sees(first, first + S::kPositions)) continue;
    if (!wait_free_stage(w)) return false;
    const u32 stage_index = w.stages_acquired % w.stages;
    load_rows<C>(w, a, cache, w.stage_at(stage_index), from, column,
                 tile.begin > first ? tile.begin - first : 0, min(tile.end - first, S::kPositions),
                 cached_end > first ? cached_end - first : 0);
    Async::end(w, stage_index);
    ++w.stages_acquired;
  }
  return true;
}

// stream_cache() brings a partial, KV tile by KV tile, as attend takes them.
template <class C>
MK_INLINE void stream_cache(Worker& w, const AttendArgs& a, u32 head, u32 row_block, u32 partial,
                            u32 query_tile_rows) {
  const Rows block(a, row_block, head);
  const u32 cached_end = cached_end_of<C>(a, block), rows = block.count * (a.heads / a.kv_heads);
  MK_ROLLED
  for (u32 number = 0; number < a.partial_positions / kKvTile; ++number) {
    const KvTile kv_tile(a, block, partial, number);
    find_places(w, a, block, kv_tile.begin);
    MK_ROLLED
    for (u32 row = 0; row < rows; row += query_tile_rows) {
      const QueryTile tile(a, block, row, query_tile_rows);
      if (!stream_query_tile<C>(w, a, tile, a.cache.k, kv_tile.begin, cached_end)) return;
      if (!stream_query_tile<C>(w, a, tile, a.cache.v, kv_tile.begin, cached_end)) return;
    }
  }
}

}  // namespace

MK_BODY void mkd_stream_cache_f32(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 partial) {
  stream_cache<F32>(*w, *a, head, row_block, partial, kQueryTileRowsF32);
}
MK_BODY void mkd_stream_cache_bf16(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 partial) {
  stream_cache<Bf16>(*w, *a, head, row_block, partial, kQueryTileRows);
}
MK_BODY void mkd_stream_cache_f16(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 partial) {
  stream_cache<F16>(*w, *a, head, row_block, partial, kQueryTileRows);
}
MK_BODY void mkd_stream_cache_e4m3(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 partial) {
  stream_cache<E4m3>(*w, *a, head, row_block, partial, kQueryTileRows);
}

}  // namespace mk
