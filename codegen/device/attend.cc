// Attention with split keys (Dao 2023, "Flash-Decoding"): a task takes one piece of a request's context for
// one key/value head and the query rows of its group in a row block; combine merges the pieces in order. The
// keys and values of a request's last block come into the cache by the tasks that read them, those of others
// before by append.
#include "codegen/device/attend_fma.h"
#include "codegen/device/attend_mma.h"

namespace mk {

namespace {

template <class C>
MK_INLINE bool is_finite(AS1 const char* element) {
  return C::load(element) * 0 == 0;
}

// Rows share values, and a weight of 0 hides none that is not finite. A key that is no number reaches the
// rows that see it and no others.
template <class C>
MK_INLINE void move_to_key(const Worker& w, const AttendArgs& a, AS1 char* k_row, AS1 char* v_row) {
  if (w.lane() == 0) C::store(k_row, __builtin_nanf(""));
  for (u32 i = w.lane(); i < a.head_dim; i += kWarpLanes)
    if (!is_finite<C>(v_row + i * C::bytes)) C::store(v_row + i * C::bytes, 0);
}

// Rotates and stores the keys, and stores the values, of the block's rows at positions [begin, end).
template <class C>
MK_INLINE void write_cache(const Worker& w, const AttendArgs& a, const Rows& r, u32 begin, u32 end) {
  const u32 width = a.kv_heads * a.head_dim;
  const f32 k_scale = kScaled<C> ? a.cache.k_scale[r.head] : 1;
  const f32 v_scale = kScaled<C> ? a.cache.v_scale[r.head] : 1;
  for (u32 row = w.warp(); row < r.count; row += kConsumerWarps) {
    const u32 position = r.fresh() + row, token = r.first + row, head = r.head;
    if (position < begin || position >= end) continue;
    const u64 offset = r.offset_of(a.cache, position);
    AS1 char* k_row = a.cache.k + offset;
    AS1 char* v_row = a.cache.v + offset;
    rotate_head(w, a.k + token * width + head * a.head_dim, a.k_norm, a.k_eps,
                a.rope + (u64)a.positions[token] * a.head_dim, a.head_dim,
                [&](u32 i, f32 value) { C::store(k_row + i * C::bytes, value / k_scale); });
    bool finite = true;
    for (u32 i = w.lane(); i < a.head_dim; i += kWarpLanes) {
      C::store(v_row + i * C::bytes, a.v[token * width + head * a.head_dim + i] / v_scale);
      finite = finite && is_finite<C>(v_row + i * C::bytes);
    }
    if (mk_warp_max(finite ? 0 : 1) != 0) move_to_key<C>(w, a, k_row, v_row);
  }
}

template <class Form>
MK_INLINE void put_queries(const Worker& w, const AttendArgs& a, const Rows& r, const Block& b, AS3 char* q) {
  for (u32 row = w.warp(); row < b.count; row += kConsumerWarps) {
    const u32 token = r.first + b.token(row), q_head = r.head * b.group + b.head(row);
    rotate_head(w, a.q + (token * a.heads + q_head) * a.head_dim, a.q_norm, a.q_eps,
                a.rope + (u64)a.positions[token] * a.head_dim, a.head_dim,
                [&](u32 i, f32 value) { Form::put_query(q, row, i, value, a.head_dim); });
    Form::end_query(w, q, row, a.head_dim);
  }
}

// The number of a part: of row x of a row block, counted over its tokens and the group's heads.
MK_INLINE u64 part_of(const AttendArgs& a, const Rows& r, u32 piece, u32 x) {
  const u32 group = a.heads / a.kv_heads;
  return ((u64)piece * a.max_tokens + r.first + x / group) * a.heads + r.head * group + x % group;
}

// Adds up what the warps have put down, in warp order, for rows [row, row + kSumRows) and columns
// [column, column + kSumColumns), and writes it to the piece's part.
MK_INLINE void add_warps(const Worker& w, const AttendArgs& a, const AttendScratch& s, const Rows& r,
                         const Block& b, u32 piece, u32 first_row, u32 column, f32 scale) {
  const u32 d = w.thread % kSumColumns;
  if (column + d >= a.head_dim) return;
  for (u32 row = w.thread / kSumColumns; row < kSumRows && first_row + row < b.count;
       row += kConsumerThreads / kSumColumns) {
    f32 sum = 0;
    for (u32 warp = 0; warp < kConsumerWarps; ++warp) sum += s.sum(warp, row, d & ~3u)[d % 4];
    a.part_acc[part_of(a, r, piece, b.first + first_row + row) * a.head_dim + column + d] = sum * scale;
  }
}

MK_INLINE void add_totals(const Worker& w, const AttendArgs& a, const AttendScratch& s, const Rows& r,
                          const Block& b, u32 piece) {
  if (w.thread >= b.count) return;
  f32 total = 0;
  for (u32 warp = 0; warp < kConsumerWarps; ++warp) total += s.total(w.thread)[warp];
  const u64 part = part_of(a, r, piece, b.first + w.thread);
  a.part_ml[part * 2] = s.greatest_of_all(w.thread);
  a.part_ml[part * 2 + 1] = total;
}

template <class C, class Form>
MK_INLINE void attend_block(Worker w, const AttendArgs& a, const Rows& r, const Block& b, u32 piece) {
  renew_thread(w);
  const AttendScratch s(w);
  put_queries<Form>(w, a, r, b, s.q);
  consumer_barrier();  // queries and keys are written; what was put down for the last block has been read
  renew_thread(w);
  const WarpPositions at(a.cache, r, (first_piece(a, r) + piece) * kPiece + w.warp() * kWarpLanes);
  const Warp x{w, a, s, b, at};
  Form form;
  form.multiply_keys(x);
  renew_thread(w);
  form.hide_unseen(x, a.scale * (kScaled<C> ? a.cache.k_scale[r.head] : 1));
  renew_thread(w);
  form.put_greatest(x);
  consumer_barrier();
  renew_thread(w);
  form.weigh(x);
  for (u32 column = 0; column < a.head_dim; column += kSumColumns) {
    renew_thread(w);
    form.multiply_values(x, column);
    for (u32 half = 0; half * kSumRows < b.count; ++half) {
      form.put_sums(x, half);
      consumer_barrier();
      add_warps(w, a, s, r, b, piece, half * kSumRows, column, kScaled<C> ? a.cache.v_scale[r.head] : 1);
      consumer_barrier();
    }
  }
  add_totals(w, a, s, r, b, piece);
}

template <class C, class Form>
MK_INLINE void attend(Worker& w, const AttendArgs& a, u32 head, u32 row_block, u32 piece, u32 block) {
  renew_thread(w);
  const Rows r(a, row_block, head);
  const u32 begin = (first_piece(a, r) + piece) * kPiece;
  if (block == 0 && r.last_of_request(a)) write_cache<C>(w, a, r, begin, begin + kPiece);
  const Block b(a, r, block * Form::kRows, Form::kRows);
  if (b.sees(begin, begin + kPiece)) attend_block<C, Form>(w, a, r, b, piece);
}

template <class C>
MK_INLINE void append(Worker& w, const AttendArgs& a, u32 head, u32 row_block) {
  renew_thread(w);
  write_cache<C>(w, a, Rows(a, row_block, head), 0, ~0u);
}

// The row x of a row block: merges its parts [from, to) in piece order. By one warp.
MK_INLINE void merge_parts(const Worker& w, const AttendArgs& a, const Rows& r, u32 x, u32 from, u32 to) {
  constexpr u32 kAtOnce = 4, kColumns = kMaxHeadDim / kWarpLanes;
  f32 all = kNone, total = 0, sum[kColumns] = {};
  for (u32 p = from + w.lane(); p < to; p += kWarpLanes)
    all = __builtin_fmaxf(all, a.part_ml[part_of(a, r, p, x) * 2]);
  all = mk_warp_max(all);
  for (u32 p = from; p < to; p += kAtOnce) {
    f32 weight[kAtOnce], part[kAtOnce][kColumns];
    MK_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k) {
      const u64 number = part_of(a, r, p + k < to ? p + k : p, x);
      weight[k] = p + k < to ? part_weight(a.part_ml[number * 2], all) : 0;
      total += weight[k] * a.part_ml[number * 2 + 1];
      MK_UNROLL
      for (u32 c = 0; c < kColumns; ++c) {
        const u32 d = c * kWarpLanes + w.lane();
        part[k][c] = d < a.head_dim ? a.part_acc[number * a.head_dim + d] : 0;
      }
    }
    MK_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k) MK_UNROLL
    for (u32 c = 0; c < kColumns; ++c) sum[c] += weight[k] * part[k][c];
  }
  const u64 row = part_of(a, r, 0, x);
  MK_UNROLL
  for (u32 c = 0; c < kColumns; ++c)
    if (c * kWarpLanes + w.lane() < a.head_dim)
      store_out(a.out, row * a.head_dim + c * kWarpLanes + w.lane(), sum[c] / total, a.out_rounded);
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

MK_BODY void mkb_attend_f32(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 piece, u32 block) {
  attend<F32, FmaForm>(*w, *a, head, row_block, piece, block);
}
MK_BODY void mkb_attend_bf16(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 piece, u32 block) {
  attend<Bf16, MmaForm<Bf16>>(*w, *a, head, row_block, piece, block);
}
MK_BODY void mkb_attend_f16(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 piece, u32 block) {
  attend<F16, MmaForm<F16>>(*w, *a, head, row_block, piece, block);
}
MK_BODY void mkb_attend_e4m3(Worker* w, const AttendArgs* a, u32 head, u32 row_block, u32 piece, u32 block) {
  attend<E4m3, MmaForm<E4m3>>(*w, *a, head, row_block, piece, block);
}

// One key/value head of a row block: each row has parts of the pieces that it sees.
MK_BODY void mkb_combine(Worker* w, const AttendArgs* a, u32 head, u32 row_block) {
  const Rows r(*a, row_block, head);
  const u32 group = a->heads / a->kv_heads, first = first_piece(*a, r);
  for (u32 x = w->warp(); x < r.count * group; x += kConsumerWarps) {
    const u32 last = r.fresh() + x / group;
    merge_parts(*w, *a, r, x, first_seen(*a, last) / kPiece - first, last / kPiece + 1 - first);
  }
}

}  // namespace mk
