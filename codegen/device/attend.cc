// Attention splits the keys of a request into partials (Dao 2023, "Flash-Decoding"). An attend task takes one
// partial of a request's context, for one key/value head and the query rows of its group in a row block.
// Combine merges the partials in order. The attend tasks of a request's last row block store its keys and
// values in the cache. Append stores those of all other row blocks before.
#include "codegen/device/activation.h"
#include "codegen/device/attend_fma.h"
#include "codegen/device/attend_mma.h"

namespace mk {

namespace {

// Place is where a vector goes: to the cache, or to shared memory if the task keeps it there
// (keeps_step_kv()).
template <class C>
struct Place {
  AS1 char* cache;
  AS3 char* step_kv;
  bool keeps_step_kv;
  MK_INLINE void store(u32 i, f32 value) const {
    if (keeps_step_kv)
      C::store(step_kv + i * C::bytes, value);
    else
      C::store(cache + i * C::bytes, value);
  }
};

// rope_of() is the row of the rope table for a position. Without a rotation it is null. A row's position
// follows from its request's lists, which are in shared memory.
MK_INLINE AS1 const f32* rope_of(const AttendArgs& a, u32 position) {
  return a.rotated ? a.rope + (u64)position * a.head_dim : nullptr;
}

// put_new_rows() rotates the keys, and stores keys and values of the block's rows at positions [begin, end).
// The last warps begin, because the first ones have queries.
//
// Rows share values, and a weight of 0 does not hide a value that is not finite. A value that is not finite
// is stored as 0, and its key as NaN. The NaN reaches the rows that see the position, and no others.
template <class C>
MK_INLINE void put_new_rows(const Worker& w, const AttendArgs& a, const Rows& block, u32 begin, u32 end) {
  const AttendScratch s(w);
  const f32 k_scale = kScaled<C> ? a.cache.k_scale[block.head] : 1;
  const f32 v_scale = kScaled<C> ? a.cache.v_scale[block.head] : 1;
  const bool keeps = keeps_step_kv<C>(a, block);
  for (u32 row = kConsumerWarps - 1 - w.warp(); row < block.count; row += kConsumerWarps) {
    const u32 position = block.first_position() + row, token = block.first + row;
    if (position < begin || position >= end) continue;
    const u64 offset = keeps ? 0 : block.offset_of(a.cache, position),
              of_head = (token * a.kv_heads + block.head) * a.head_dim;
    const Place<C> key{a.cache.k + offset, s.step_kv, keeps},
        value{a.cache.v + offset, s.step_kv + AttendScratch::kStepVectorBytes, keeps};
    const HeadPairs v(w, a.v + of_head, a.head_dim);
    rotate_head(w, a.k + of_head, a.k_norm, a.k_eps, a.rotated, rope_of(a, position), a.head_dim,
                [&](u32 i, f32 element) { key.store(i, element / k_scale); });
    bool finite = true;
    const auto store = [&](u32 i, f32 element) {
      const bool number = C::round(element) * 0 == 0;
      finite = finite && number;
      value.store(i, number ? element : 0);
    };
    MK_UNROLL
    for (u32 k = 0; k < HeadPairs::kCount; ++k) {
      const u32 i = k * kWarpLanes + w.lane();
      if (i >= a.head_dim / 2) continue;
      store(i, v.low[k] / v_scale);
      store(a.head_dim / 2 + i, v.high[k] / v_scale);
    }
    if (mk_warp_max(finite ? 0 : 1) != 0 && w.lane() == 0) key.store(0, __builtin_nanf(""));
  }
}

// store_kept_step_kv() copies the key and value that put_new_rows() has kept in shared memory to the cache.
// One warp, which has put them there, copies them behind the work that others wait for.
template <class C>
MK_INLINE void store_kept_step_kv(const Worker& w, const AttendArgs& a, const Rows& block) {
  if (w.warp() != kConsumerWarps - 1) return;
  mk_warp_sync();
  const AttendScratch s(w);
  const u32 chunks = a.head_dim * C::bytes / kChunkBytes;
  const u64 offset = block.offset_of(a.cache, block.first_position());
  for (u32 i = w.lane(); i < 2 * chunks; i += kWarpLanes) {
    const bool of_value = i >= chunks;
    const u32 byte = (of_value ? i - chunks : i) * kChunkBytes;
    *(AS1 u32x4*)((of_value ? a.cache.v : a.cache.k) + offset + byte) =
        *(AS3 const u32x4*)(s.step_kv + (of_value ? AttendScratch::kStepVectorBytes : 0) + byte);
  }
}

template <class Form>
MK_INLINE void put_queries(const Worker& w, const AttendArgs& a, const Rows& block, const QueryTile& tile,
                           AS3 char* q) {
  for (u32 row = w.warp(); row < tile.count; row += kConsumerWarps) {
    const u32 token = block.first + tile.token(row), q_head = block.head * tile.group + tile.head(row);
    rotate_head(w, a.q + (token * a.heads + q_head) * a.head_dim, a.q_norm, a.q_eps, a.rotated,
                rope_of(a, tile.first_position + tile.token(row)), a.head_dim,
                [&](u32 i, f32 value) { Form::put_query(q, row, i, value); });
    Form::end_query(w, q, row, a.head_dim);
  }
}

// add_to_partial() adds the warps' sums in warp order, for rows [first_row, first_row + kSumRows) and columns
// [column, column + kValueColumns). The first KV tile of a partial stores the sum, and later ones add to it.
// A row that sees none of the KV tile adds 0.
MK_INLINE void add_to_partial(const Worker& w, const AttendArgs& a, const AttendScratch& s, const Rows& block,
                              const QueryTile& tile, const KvTile& kv_tile, u32 first_row, u32 column,
                              f32 scale) {
  // Lanes read in the order in which sums lie. Each eight of them write a sector.
  const u32 four = w.thread % kValueColumns / 4, d = four % 4 * 16 + four / 4 * 4 + w.thread % 4;
  if (column + d >= a.head_dim) return;
  for (u32 row = first_row + w.thread / kValueColumns; row < min(first_row + kSumRows, tile.count);
       row += kConsumerThreads / kValueColumns) {
    f32 sum = 0;
    for (u32 warp = 0; warp < kConsumerWarps; ++warp) sum += s.sum(warp, row - first_row, d & ~3u)[d % 4];
    const u64 left_row = partial_row(a, block, kv_tile.partial, tile.first + row);
    AS1 f32& left = a.partial_acc[left_row * a.head_dim + column + d];
    left = kv_tile.first ? sum * scale
                         : Merge(a.partial_ml[left_row * 2], s.greatest_of_all(row))(left, sum * scale);
  }
}

MK_INLINE void add_totals(const Worker& w, const AttendArgs& a, const AttendScratch& s, const Rows& block,
                          const QueryTile& tile, const KvTile& kv_tile) {
  const u32 row = w.thread;
  if (row >= tile.count) return;
  f32 total = 0;
  for (u32 warp = 0; warp < kConsumerWarps; ++warp) total += s.total(row)[warp];
  AS1 f32* left = a.partial_ml + partial_row(a, block, kv_tile.partial, tile.first + row) * 2;
  const Merge merge(kv_tile.first ? kNoScore : left[0], s.greatest_of_all(row));
  left[1] = merge(kv_tile.first ? 0 : left[1], total);
  left[0] = merge.greatest;
}

template <class C, class Form>
MK_INLINE void attend_query_tile(Worker& w, const AttendArgs& a, const Rows& block, const QueryTile& tile,
                                 const KvTile& kv_tile) {
  launder_thread(w);
  const AttendScratch s(w);
  put_queries<Form>(w, a, block, tile, s.q);
  consumer_barrier();  // queries and keys are written; the sums of the last query tile have been read
  launder_thread(w);
  const Warp warp{w,
                  a,
                  s,
                  tile,
                  kv_tile.begin + w.warp() * kWarpLanes,
                  cached_end_of<C>(a, block),
                  keeps_step_kv<C>(a, block)};
  Form form;
  form.begin();
  MK_ROLLED
  for (u32 column = 0; column < a.head_dim; column += kValueColumns) {
    launder_thread(w);
    take_rows<C, Form>(warp, column, s.step_kv,
                       [&](AS3 const char* rows) { form.add_keys(warp, rows, column); });
  }
  launder_thread(w);
  form.hide_unseen(warp, a.scale * (kScaled<C> ? a.cache.k_scale[block.head] : 1));
  launder_thread(w);
  form.put_greatest(warp);
  consumer_barrier();
  launder_thread(w);
  form.weigh(warp);
  MK_ROLLED
  for (u32 column = 0; column < a.head_dim; column += kValueColumns) {
    launder_thread(w);
    form.begin_sums();
    take_rows<C, Form>(warp, column, s.step_kv + AttendScratch::kStepVectorBytes,
                       [&](AS3 const char* rows) { form.add_values(warp, rows, column); });
    for (u32 half = 0; half * kSumRows < tile.count; ++half) {
      form.put_sums(warp, half);
      consumer_barrier();
      add_to_partial(w, a, s, block, tile, kv_tile, half * kSumRows, column,
                     kScaled<C> ? a.cache.v_scale[block.head] : 1);
      consumer_barrier();
    }
  }
  add_totals(w, a, s, block, tile, kv_tile);
}

template <class C, class Form>
MK_INLINE void attend(Worker& w, const AttendArgs& a, u32 head, u32 row_block, u32 partial,
                      u32 kv_tile_of_partial, u32 query_tile) {
  launder_thread(w);
  const Rows block(a, row_block, head);
  const KvTile kv_tile(a, block, partial, kv_tile_of_partial);
  const u32 end = kv_tile.begin + kKvTile;
  const bool writes = query_tile == 0 && block.written_by_attend(a);
  if (writes) put_new_rows<C>(w, a, block, kv_tile.begin, end);
  const QueryTile tile(a, block, query_tile * Form::kRows, Form::kRows);
  if (tile.sees(kv_tile.begin, end)) attend_query_tile<C, Form>(w, a, block, tile, kv_tile);
  if (writes && keeps_step_kv<C>(a, block) && block.first_position() >= kv_tile.begin &&
      block.first_position() < end)
    store_kept_step_kv<C>(w, a, block);
}

template <class C>
MK_INLINE void append(Worker& w, const AttendArgs& a, u32 head, u32 row_block) {
  launder_thread(w);
  put_new_rows<C>(w, a, Rows(a, row_block, head), 0, ~0u);
}

// RowSum is a row's result over some positions. Each lane has every 32nd column.
struct RowSum {
  static constexpr u32 kColumns = kMaxHeadDim / kWarpLanes;
  f32 greatest = kNoScore, total = 0, column[kColumns] = {};

  MK_INLINE void add(const RowSum& other, u32 head_dim) {
    const Merge merge(greatest, other.greatest);
    greatest = merge.greatest;
    total = merge(total, other.total);
    MK_UNROLL
    for (u32 c = 0; c < kColumns; ++c)
      if (c * kWarpLanes < head_dim) column[c] = merge(column[c], other.column[c]);
  }
};

// add_partials() adds partials [from, to) of row x of a row block to a warp's `sum`, in their order.
MK_INLINE void add_partials(const Worker& w, const AttendArgs& a, const Rows& block, u32 x, u32 from, u32 to,
                            RowSum& sum) {
  constexpr u32 kAtOnce = 4;
  for (u32 p = from; p < to; p += kAtOnce) {
    RowSum partial[kAtOnce];
    MK_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k) {
      const u64 at = partial_row(a, block, p + k < to ? p + k : p, x);
      partial[k].greatest = a.partial_ml[at * 2];
      partial[k].total = a.partial_ml[at * 2 + 1];
      MK_UNROLL
      for (u32 c = 0; c < RowSum::kColumns; ++c) {
        const u32 d = c * kWarpLanes + w.lane();
        if (d < a.head_dim) partial[k].column[c] = a.partial_acc[at * a.head_dim + d];
      }
    }
    MK_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k)
      if (p + k < to) sum.add(partial[k], a.head_dim);
  }
}

// merge_partials() computes the result of row x of a row block from partials [from, to), KV chunk by KV
// chunk. The caller is one warp.
MK_INLINE void merge_partials(const Worker& w, const AttendArgs& a, const Rows& block, u32 x, u32 from,
                              u32 to) {
  const u32 first = first_kv_tile(a, block) * kKvTile;
  RowSum all;
  for (u32 p = from; p < to;) {
    const u32 kv_chunk_end = (first + p * a.partial_positions) / kKvChunk * kKvChunk + kKvChunk,
              end = min(to, (kv_chunk_end - first) / a.partial_positions);
    RowSum kv_chunk;
    add_partials(w, a, block, x, p, end, kv_chunk);
    all.add(kv_chunk, a.head_dim);
    p = end;
  }
  const u64 row = partial_row(a, block, 0, x);
  if (a.sinks) {
    RowSum sink;
    sink.greatest = a.sinks[row % a.heads] * kLog2E, sink.total = 1;
    all.add(sink, a.head_dim);
  }
  MK_UNROLL
  for (u32 c = 0; c < RowSum::kColumns; ++c)
    if (c * kWarpLanes + w.lane() < a.head_dim)
      store_out(a.out, row * a.head_dim + c * kWarpLanes + w.lane(), all.column[c] / all.total, a.out_bf16);
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
  attend<F32, FmaForm>(*w, *a, head, row_block, partial, kv_tile, query_tile);
}
MK_BODY void mkb_attend_bf16(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 partial,
                             u32 kv_tile, u32 query_tile) {
  attend<Bf16, MmaForm<Bf16>>(*w, *a, head, row_block, partial, kv_tile, query_tile);
}
MK_BODY void mkb_attend_f16(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 partial, u32 kv_tile,
                            u32 query_tile) {
  attend<F16, MmaForm<F16>>(*w, *a, head, row_block, partial, kv_tile, query_tile);
}
MK_BODY void mkb_attend_e4m3(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 partial,
                             u32 kv_tile, u32 query_tile) {
  attend<E4m3, MmaForm<E4m3>>(*w, *a, head, row_block, partial, kv_tile, query_tile);
}

// mkb_combine() takes one key/value head of a row block. Each row has the partials that it sees.
MK_BODY void mkb_combine(Worker* w, const AttendArgs* a, u32 head, u32 row_block) {
  const Rows block(*a, row_block, head);
  const u32 group = a->heads / a->kv_heads, first = first_kv_tile(*a, block) * kKvTile;
  for (u32 x = w->warp(); x < block.count * group; x += kConsumerWarps) {
    const u32 last = block.first_position() + x / group, from = first_seen(*a, last) / kKvTile * kKvTile;
    merge_partials(*w, *a, block, x, (from - first) / a->partial_positions,
                   (last - first) / a->partial_positions + 1);
  }
}

}  // namespace mk
