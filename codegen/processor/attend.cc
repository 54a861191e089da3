// A worker of one thread computes attention. Tasks, partials and the order of sums over KV tiles are those of
// codegen/device/attend.cc. Keys and values are read where they lie in the cache, except for what AMX needs
// in tiles. Queries stay f32 where the cache is not bf16, or where the processor lacks BF16.
#include "codegen/processor/activation.h"
#include "codegen/processor/attend_amx.h"
#include "codegen/processor/attend_rows.h"

namespace mk {

namespace {

// write_cache() rotates and stores the keys, and stores the values, of the block's rows at positions [begin,
// end). A weight of 0 would not hide a value that is not finite. Such a value is stored as 0, and its key
// as NaN.
template <class C>
MK_INLINE void write_cache(const Worker& w, const AttendArgs& a, const Rows& block, u32 begin, u32 end) {
  const f32 k_scale = kScaled<C> ? a.cache.k_scale[block.head] : 1;
  const f32 v_scale = kScaled<C> ? a.cache.v_scale[block.head] : 1;
  for (u32 row = 0; row < block.count; ++row) {
    const u32 position = block.first_position() + row, token = block.first + row;
    if (position < begin || position >= end) continue;
    const u64 offset = block.offset_of(a.cache, position),
              of_head = (token * a.kv_heads + block.head) * a.head_dim;
    char *k = plain(a.cache.k) + offset, *v = plain(a.cache.v) + offset;
    f32* key = (f32*)scratch_of(w);
    put_head(plain(a.k) + of_head, plain(a.k_norm), a.k_eps, rope_of(a, position), a.head_dim, key);
    bool finite = true;
    each_vector(a.head_dim, [&](u32 i, u32 count) {
      const f32x16 value = load_part<f32x16>(plain(a.v) + of_head + i, count);
      store16<C>(k + i * C::bytes, load<f32x16>(key + i) / k_scale, count, nullptr);
      store16<C>(v + i * C::bytes, value / v_scale, count, &finite);
    });
    if (!finite) C::store(a.cache.k + offset, __builtin_nanf(""));
  }
}

// attend_rows() takes query rows from `row` on, R at a time. The result is the first row that is left.
template <class C, u32 R>
MK_INLINE u32 attend_rows(const Worker& w, const AttendArgs& a, const Rows& block, const KvTile& kv_tile,
                          u32 row, u32 end) {
  MK_ROLLED
  for (; row + R <= end; row += R) {
    const QueryTile tile(a, block, row, R);
    if (tile.sees(kv_tile.begin, kv_tile.begin + kKvTile))
      QueryRows<C, R>(w, a, block, tile, kv_tile).attend();
  }
  return row;
}

template <class C>
MK_INLINE void attend(const Worker& w, const AttendArgs& a, u32 head, u32 row_block, u32 partial,
                      u32 kv_tile_of_partial, u32 query_tile) {
  const Rows block(a, row_block, head);
  const KvTile kv_tile(a, block, partial, kv_tile_of_partial);
  if (query_tile == 0 && block.written_by_attend(a))
    write_cache<C>(w, a, block, kv_tile.begin, kv_tile.begin + kKvTile);
  constexpr u32 kRows = __is_same(C, F32) ? kQueryTileRowsF32 : kQueryTileRows;
  u32 row = query_tile * kRows;
  const u32 end = min(row + kRows, block.count * (a.heads / a.kv_heads));
#ifdef __AMX_BF16__
  if constexpr (__is_same(C, Bf16)) {
    const QueryTile tile(a, block, row, kRows);
    if (tile.sees(kv_tile.begin, kv_tile.begin + kKvTile))
      AmxQueryTile(amx_attend_memory_of(w), a, block, tile, kv_tile).attend();
    return;
  }
#endif
  if constexpr (kMaxRows == 4) row = attend_rows<C, 4>(w, a, block, kv_tile, row, end);
  row = attend_rows<C, 2>(w, a, block, kv_tile, row, end);
  attend_rows<C, 1>(w, a, block, kv_tile, row, end);
}

template <class C>
MK_INLINE void append(const Worker& w, const AttendArgs& a, u32 head, u32 row_block) {
  write_cache<C>(w, a, Rows(a, row_block, head), 0, ~0u);
}

// RowSum is a row's result over some positions.
struct RowSum {
  f32 greatest, total;
  f32x16 column[kMaxHeadDim / kVector];

  MK_INLINE void clear(u32 head_dim) {
    greatest = kNoScore, total = 0;
    for (u32 i = 0; i * kVector < head_dim; ++i) column[i] = f32x16(0);
  }
  // add() adds another result, whose columns are `columns`.
  MK_INLINE void add(f32 other_greatest, f32 other_total, const f32* columns, u32 head_dim) {
    const Merge merge(greatest, other_greatest);
    greatest = merge.greatest;
    total = merge(total, other_total);
    each_vector(head_dim, [&](u32 i, u32 count) {
      f32x16& sum = column[i / kVector];
      sum = fma(load_part<f32x16>(columns + i, count), all_lanes(merge.more), sum * all_lanes(merge.before));
    });
  }
};

// merge_partials() computes the result of row x of a row block from partials [from, to), KV chunk by KV
// chunk.
MK_INLINE void merge_partials(const AttendArgs& a, const Rows& block, u32 x, u32 from, u32 to) {
  const u32 first = first_kv_tile(a, block) * kKvTile;
  RowSum all, kv_chunk;
  all.clear(a.head_dim);
  for (u32 p = from; p < to;) {
    const u32 kv_chunk_end = (first + p * a.partial_positions) / kKvChunk * kKvChunk + kKvChunk,
              end = min(to, (kv_chunk_end - first) / a.partial_positions);
    kv_chunk.clear(a.head_dim);
    for (; p < end; ++p) {
      const u64 at = partial_row(a, block, p, x);
      kv_chunk.add(a.partial_ml[at * 2], a.partial_ml[at * 2 + 1], plain(a.partial_acc) + at * a.head_dim,
                   a.head_dim);
    }
    all.add(kv_chunk.greatest, kv_chunk.total, (const f32*)kv_chunk.column, a.head_dim);
  }
  if (a.sinks) {
    const Merge merge(all.greatest, a.sinks[partial_row(a, block, 0, x) % a.heads] * kLog2E);
    all.total = merge(all.total, 1);
    each_vector(a.head_dim, [&](u32 i, u32) { all.column[i / kVector] *= all_lanes(merge.before); });
  }
  const u64 row = partial_row(a, block, 0, x) * a.head_dim;
  each_vector(a.head_dim, [&](u32 i, u32 count) {
    const f32x16 out = all.column[i / kVector] / all.total;
    if (a.out_bf16)
      store16<Bf16>((char*)plain(a.out) + (row + i) * Bf16::bytes, out, count, nullptr);
    else
      store_part(plain(a.out) + row + i, out, count);
  });
}

}  // namespace

MK_BODY void mkb_append_f32(Worker* w, const AttendArgs* a, u32 head, u32 row_block) {
  append<F32>(*w, *a, head, row_block);
}
MK_BODY void mkb_append_bf16(Worker* w, const AttendArgs* a, u32 head, u32 row_block) {
  append<Bf16>(*w, *a, head, row_block);
}
MK_BODY void mkb_append_f16(Worker* w, const AttendArgs* a, u32 head, u32 row_block) {
  append<F16>(*w, *a, head, row_block);
}
MK_BODY void mkb_append_e4m3(Worker* w, const AttendArgs* a, u32 head, u32 row_block) {
  append<E4m3>(*w, *a, head, row_block);
}

MK_BODY void mkb_attend_f32(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 partial, u32 kv_tile,
                            u32 query_tile) {
  attend<F32>(*w, *a, head, row_block, partial, kv_tile, query_tile);
}
MK_BODY void mkb_attend_bf16(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 partial,
                             u32 kv_tile, u32 query_tile) {
  attend<Bf16>(*w, *a, head, row_block, partial, kv_tile, query_tile);
}
MK_BODY void mkb_attend_f16(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 partial, u32 kv_tile,
                            u32 query_tile) {
  attend<F16>(*w, *a, head, row_block, partial, kv_tile, query_tile);
}
MK_BODY void mkb_attend_e4m3(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 partial,
                             u32 kv_tile, u32 query_tile) {
  attend<E4m3>(*w, *a, head, row_block, partial, kv_tile, query_tile);
}

// mkb_combine() takes one key/value head of a row block. Each row has the partials that it sees.
MK_BODY void mkb_combine(Worker*, const AttendArgs* a, u32 head, u32 row_block) {
  const Rows block(*a, row_block, head);
  const u32 group = a->heads / a->kv_heads, first = first_kv_tile(*a, block) * kKvTile;
  for (u32 x = 0; x < block.count * group; ++x) {
    const u32 last = block.first_position() + x / group, from = first_seen(*a, last) / kKvTile * kKvTile;
    merge_partials(*a, block, x, (from - first) / a->partial_positions,
                   (last - first) / a->partial_positions + 1);
  }
}

}  // namespace mk
