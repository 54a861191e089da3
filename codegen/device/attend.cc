// Attention with split keys (Dao 2023, "Flash-Decoding"): a task takes one piece of a request's context for
// one key/value head and all query rows of its group; combine merges the pieces in order.
//
// A piece is kPiece positions from a multiple of kPiece on. Consumer warp w owns 32 of them, lane l one, so a
// row's result depends on its position and the cache alone: not on the rest of the batch, nor on how a prompt
// was cut, nor on where the pages lie.
#include "codegen/device/bodies.h"

namespace mk {

namespace {

constexpr u32 kPiece = kConsumerThreads;
constexpr u32 kMaxHeadDim = 256;
constexpr u32 kRows =
    2;  // query rows at a time: kRows * kConsumerWarps * (kMaxHeadDim + 2) floats of scratch
constexpr f32 kNone = -__builtin_inff();

template <class C>
constexpr bool kScaled = __is_same(C, E4m3);

struct Scratch {
  AS3 f32* q;       // [row][head_dim]
  AS3 f32* weight;  // [warp][32]
  AS3 f32* acc;     // [row][warp][head_dim]
  AS3 f32* ml;      // [row][warp][2]
  MK_INLINE explicit Scratch(const Worker& w)
      : q((AS3 f32*)w.scratch()),
        weight(q + kRows * kMaxHeadDim),
        acc(weight + kConsumerThreads),
        ml(acc + kRows * kConsumerWarps * kMaxHeadDim) {}
};
static_assert((kRows * kMaxHeadDim + kConsumerThreads + kRows * kConsumerWarps * (kMaxHeadDim + 2)) * 4 <=
              kScratchBytes);

// One head vector, by one warp: optional norm over the head, then rotation of its halves (Su et al. 2021, in
// the half-split form). store(i, value) gets each element once.
template <class Store>
MK_INLINE void rotate_head(const Worker& w, AS1 const f32* x, AS1 const f32* norm, f32 eps,
                           AS1 const f32* rope, u32 head_dim, Store store) {
  f32 scale = 1;
  if (norm) {
    f32 sum = 0;
    for (u32 i = w.lane(); i < head_dim; i += kWarpLanes) sum = __builtin_fmaf(x[i], x[i], sum);
    scale = mk_rsqrt(mk_warp_sum(sum) / (f32)head_dim + eps);
  }
  const u32 half = head_dim / 2;
  for (u32 i = w.lane(); i < half; i += kWarpLanes) {
    f32 a = x[i] * scale, b = x[half + i] * scale;
    if (norm) a *= norm[i], b *= norm[half + i];
    const f32 cosine = rope[i], sine = rope[half + i];
    store(i, a * cosine - b * sine);
    store(half + i, b * cosine + a * sine);
  }
}

// One request's share of the step, for one head.
struct Rows {
  u32 first, count;  // rows of the step
  u32 kv_len;        // positions with theirs
  u32 request, head;
  MK_INLINE Rows(const AttendArgs& a, u32 request_number, u32 head_number)
      : first(a.first_row[request_number]),
        count(a.rows[request_number]),
        kv_len(a.kv_len[request_number]),
        request(request_number),
        head(head_number) {}
  MK_INLINE u32 fresh() const { return kv_len - count; }  // the first position of the step
  // The first piece that a row looks at.
  MK_INLINE u32 first_piece(const AttendArgs& a) const {
    return a.window != 0 && fresh() + 1 > a.window ? (fresh() + 1 - a.window) / kPiece : 0;
  }
  // Bytes from the beginning of a cache to a position, which has a page.
  MK_INLINE u64 offset_of(const PagedCache& c, u32 position) const {
    const u32 page = c.page_index[c.page_begin[request] + (position >> c.page_shift)];
    return page * c.page_stride + (position & ((1u << c.page_shift) - 1)) * c.position_stride +
           head * c.head_stride;
  }
};

// Rotates and stores the keys, and stores the values, of this step's rows that fall into the piece.
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
    for (u32 i = w.lane(); i < a.head_dim; i += kWarpLanes)
      C::store(v_row + i * C::bytes, a.v[token * width + head * a.head_dim + i] / v_scale);
  }
}

// Where a warp's 32 positions lie: two halves, each within a page.
constexpr u32 kHalf = 16;
struct WarpPositions {
  u32 first;
  u64 low, high;  // bytes from the beginning of a cache to each half
  u64 stride;
  MK_INLINE WarpPositions(const PagedCache& c, const Rows& r, u32 first_position)
      : first(first_position),
        low(first < r.kv_len ? r.offset_of(c, first) : 0),
        high(first + kHalf < r.kv_len ? r.offset_of(c, first + kHalf) : 0),
        stride(c.position_stride) {}
  MK_INLINE u64 at(u32 index) const { return (index < kHalf ? low : high) + index % kHalf * stride; }
};

// One query row against this warp's positions, of which the row may see those up to `last` that its window
// reaches. `scale`: of the scores.
template <class C>
MK_INLINE void attend_row(const Worker& w, const AttendArgs& a, const Scratch& s, const WarpPositions& at,
                          u32 row, u32 last, f32 scale) {
  const u32 first = at.first, position = first + w.lane();
  const bool visible = position <= last && (a.window == 0 || last - position < a.window);
  f32 score = kNone;
  if (visible) {
    AS1 const char* key = a.cache.k + at.at(w.lane());
    f32 sum = 0;
    for (u32 i = 0; i < a.head_dim; ++i)
      sum = __builtin_fmaf(s.q[row * kMaxHeadDim + i], C::load(key + i * C::bytes), sum);
    score = sum * scale;
  }
  const f32 greatest = mk_warp_max(score);
  const f32 weight = visible ? mk_exp2(score - greatest) : 0;
  const f32 total = mk_warp_sum(weight);
  mk_warp_sync();  // the last row's weights have been read
  s.weight[w.thread] = weight;
  mk_warp_sync();
  const u32 seen = last < first ? 0 : last - first + 1 < kWarpLanes ? last - first + 1 : kWarpLanes;
  const u32 entry = row * kConsumerWarps + w.warp();
  for (u32 i = w.lane(); i < a.head_dim; i += kWarpLanes) {
    f32 sum = 0;
    for (u32 j = 0; j < seen; ++j)
      sum = __builtin_fmaf(s.weight[w.warp() * kWarpLanes + j], C::load(a.cache.v + at.at(j) + i * C::bytes),
                           sum);
    s.acc[entry * kMaxHeadDim + i] = sum;
  }
  if (w.lane() == 0) {
    s.ml[entry * 2] = greatest;
    s.ml[entry * 2 + 1] = total;
  }
}

// Weight of a part with greatest score m in a whole with greatest score `all`.
MK_INLINE f32 part_weight(f32 m, f32 all) {
  return m == kNone ? 0 : mk_exp2(m - all);
}

// Adds up the warps of one query row, in warp order, and writes the piece's part.
MK_INLINE void merge_warps(const Worker& w, const AttendArgs& a, const Scratch& s, u32 row, u32 piece,
                           u32 token, u32 q_head, f32 v_scale) {
  AS3 const f32* ml = s.ml + row * kConsumerWarps * 2;
  f32 all = kNone;
  for (u32 i = 0; i < kConsumerWarps; ++i) all = __builtin_fmaxf(all, ml[2 * i]);
  const u64 out_row = (u64)piece * a.max_tokens + token;
  for (u32 d = w.thread; d < a.head_dim; d += kConsumerThreads) {
    f32 sum = 0;
    for (u32 i = 0; i < kConsumerWarps; ++i)
      sum += part_weight(ml[2 * i], all) * s.acc[(row * kConsumerWarps + i) * kMaxHeadDim + d];
    a.part_acc[(out_row * a.heads + q_head) * a.head_dim + d] = sum * v_scale;
  }
  if (w.thread == 0) {
    f32 total = 0;
    for (u32 i = 0; i < kConsumerWarps; ++i) total += part_weight(ml[2 * i], all) * ml[2 * i + 1];
    a.part_ml[(out_row * a.heads + q_head) * 2] = all;
    a.part_ml[(out_row * a.heads + q_head) * 2 + 1] = total;
  }
}

template <class C>
MK_INLINE void attend(Worker& w, const AttendArgs& a, u32 head, u32 request, u32 piece) {
  const Scratch s(w);
  const Rows r(a, request, head);
  const u32 begin = (r.first_piece(a) + piece) * kPiece, group = a.heads / a.kv_heads;
  const f32 scale = kScaled<C> ? a.scale * a.cache.k_scale[head] : a.scale;
  const f32 v_scale = kScaled<C> ? a.cache.v_scale[head] : 1;
  write_cache<C>(w, a, r, begin, begin + kPiece);
  const WarpPositions at(a.cache, r, begin + w.warp() * kWarpLanes);
  for (u32 first = 0; first < r.count * group; first += kRows) {
    const u32 rows = r.count * group - first < kRows ? r.count * group - first : kRows;
    if (w.warp() < rows) {
      const u32 token = r.first + (first + w.warp()) / group,
                q_head = head * group + (first + w.warp()) % group;
      rotate_head(w, a.q + (token * a.heads + q_head) * a.head_dim, a.q_norm, a.q_eps,
                  a.rope + (u64)a.positions[token] * a.head_dim, a.head_dim,
                  [&](u32 i, f32 value) { s.q[w.warp() * kMaxHeadDim + i] = C::round(value); });
    }
    consumer_barrier();  // keys and queries are written; the last rows' sums have been read
    for (u32 row = 0; row < rows; ++row)
      attend_row<C>(w, a, s, at, row, r.fresh() + (first + row) / group, scale);
    consumer_barrier();
    for (u32 row = 0; row < rows; ++row)
      merge_warps(w, a, s, row, piece, r.first + (first + row) / group, head * group + (first + row) % group,
                  v_scale);
  }
}

}  // namespace

MK_BODY void mkb_attend_f32(Worker* w, const AttendArgs* a, u32 head, u32 request, u32 piece) {
  attend<F32>(*w, *a, head, request, piece);
}
MK_BODY void mkb_attend_bf16(Worker* w, const AttendArgs* a, u32 head, u32 request, u32 piece) {
  attend<Bf16>(*w, *a, head, request, piece);
}
MK_BODY void mkb_attend_f16(Worker* w, const AttendArgs* a, u32 head, u32 request, u32 piece) {
  attend<F16>(*w, *a, head, request, piece);
}
MK_BODY void mkb_attend_e4m3(Worker* w, const AttendArgs* a, u32 head, u32 request, u32 piece) {
  attend<E4m3>(*w, *a, head, request, piece);
}

// One key/value head of a request: merges the parts of its query rows in piece order.
MK_BODY void mkb_combine(Worker* w, const AttendArgs* a, u32 head, u32 request) {
  const u32 group = a->heads / a->kv_heads, width = group * a->head_dim;
  const Rows r(*a, request, head);
  const u32 pieces = (r.kv_len + kPiece - 1) / kPiece - r.first_piece(*a);
  for (u32 i = w->thread; i < r.count * width; i += kConsumerThreads) {
    const u32 token = r.first + i / width, q_head = head * group + i % width / a->head_dim,
              d = i % a->head_dim;
    f32 all = kNone;
    for (u32 p = 0; p < pieces; ++p)
      all = __builtin_fmaxf(all, a->part_ml[(((u64)p * a->max_tokens + token) * a->heads + q_head) * 2]);
    f32 sum = 0, total = 0;
    for (u32 p = 0; p < pieces; ++p) {
      const u64 part = ((u64)p * a->max_tokens + token) * a->heads + q_head;
      const f32 weight = part_weight(a->part_ml[part * 2], all);
      sum += weight * a->part_acc[part * a->head_dim + d];
      total += weight * a->part_ml[part * 2 + 1];
    }
    a->out[(token * a->heads + q_head) * a->head_dim + d] = sum / total;
  }
}

}  // namespace mk
