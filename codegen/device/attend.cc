// Attention with split keys (Dao 2023, "Flash-Decoding"): a task takes one piece of the context for one
// key/value head and all query rows of its group; combine merges the pieces in order.
//
// A piece is kPiece positions from a multiple of kPiece on. Consumer warp w owns 32 of them, lane l one, so a
// row's result depends on its position and the cache alone: not on T, nor on how a prompt was cut.
#include "codegen/device/bodies.h"

namespace mk {

namespace {

constexpr u32 kPiece = kConsumerThreads;
constexpr u32 kMaxHeadDim = 256;
constexpr u32 kRows =
    2;  // query rows at a time: kRows * kConsumerWarps * (kMaxHeadDim + 2) floats of scratch
constexpr f32 kNone = -__builtin_inff();

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

// Rotates and stores the keys, and stores the values, of this step's tokens that fall into the piece.
template <class C>
MK_INLINE void write_cache(const Worker& w, const AttendArgs& a, u32 head, u32 begin, u32 end) {
  const u32 width = a.kv_heads * a.head_dim;
  for (u32 token = w.warp(); token < a.tokens; token += kConsumerWarps) {
    const u32 position = a.kv_len - a.tokens + token;
    if (position < begin || position >= end) continue;
    const u64 row = ((u64)head * a.context + position) * a.head_dim;
    AS1 char* k_row = a.k_cache + row * C::bytes;
    AS1 char* v_row = a.v_cache + row * C::bytes;
    rotate_head(w, a.k + token * width + head * a.head_dim, a.k_norm, a.k_eps,
                a.rope + (u64)a.positions[token] * a.head_dim, a.head_dim,
                [&](u32 i, f32 value) { C::store(k_row + i * C::bytes, value); });
    for (u32 i = w.lane(); i < a.head_dim; i += kWarpLanes)
      C::store(v_row + i * C::bytes, a.v[token * width + head * a.head_dim + i]);
  }
}

// One query row against this warp's 32 positions from `first` on, of which the row may see those up to `last`
// that its window reaches.
template <class C>
MK_INLINE void attend_row(const Worker& w, const AttendArgs& a, const Scratch& s, u32 head, u32 row,
                          u32 first, u32 last) {
  const u64 base = ((u64)head * a.context + first) * a.head_dim;
  const u32 position = first + w.lane();
  const bool visible = position <= last && (a.window == 0 || last - position < a.window);
  f32 score = kNone;
  if (visible) {
    AS1 const char* key = a.k_cache + (base + w.lane() * a.head_dim) * C::bytes;
    f32 sum = 0;
    for (u32 i = 0; i < a.head_dim; ++i)
      sum = __builtin_fmaf(s.q[row * kMaxHeadDim + i], C::load(key + i * C::bytes), sum);
    score = sum * a.scale;
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
      sum = __builtin_fmaf(s.weight[w.warp() * kWarpLanes + j],
                           C::load(a.v_cache + (base + j * a.head_dim + i) * C::bytes), sum);
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
                           u32 token, u32 q_head) {
  AS3 const f32* ml = s.ml + row * kConsumerWarps * 2;
  f32 all = kNone;
  for (u32 i = 0; i < kConsumerWarps; ++i) all = __builtin_fmaxf(all, ml[2 * i]);
  const u64 out_row = (u64)piece * a.max_tokens + token;
  for (u32 d = w.thread; d < a.head_dim; d += kConsumerThreads) {
    f32 sum = 0;
    for (u32 i = 0; i < kConsumerWarps; ++i)
      sum += part_weight(ml[2 * i], all) * s.acc[(row * kConsumerWarps + i) * kMaxHeadDim + d];
    a.part_acc[(out_row * a.heads + q_head) * a.head_dim + d] = sum;
  }
  if (w.thread == 0) {
    f32 total = 0;
    for (u32 i = 0; i < kConsumerWarps; ++i) total += part_weight(ml[2 * i], all) * ml[2 * i + 1];
    a.part_ml[(out_row * a.heads + q_head) * 2] = all;
    a.part_ml[(out_row * a.heads + q_head) * 2 + 1] = total;
  }
}

template <class C>
MK_INLINE void attend(Worker& w, const AttendArgs& a, u32 head, u32 piece) {
  const Scratch s(w);
  const u32 begin = (a.first_piece + piece) * kPiece, end = begin + kPiece;
  write_cache<C>(w, a, head, begin, end);
  const u32 group = a.heads / a.kv_heads;
  for (u32 first_row = 0; first_row < a.tokens * group; first_row += kRows) {
    const u32 rows = a.tokens * group - first_row < kRows ? a.tokens * group - first_row : kRows;
    if (w.warp() < rows) {
      const u32 token = (first_row + w.warp()) / group,
                q_head = head * group + (first_row + w.warp()) % group;
      rotate_head(w, a.q + (token * a.heads + q_head) * a.head_dim, a.q_norm, a.q_eps,
                  a.rope + (u64)a.positions[token] * a.head_dim, a.head_dim,
                  [&](u32 i, f32 value) { s.q[w.warp() * kMaxHeadDim + i] = C::round(value); });
    }
    consumer_barrier();  // keys and queries are written; the last rows' sums have been read
    for (u32 row = 0; row < rows; ++row)
      attend_row<C>(w, a, s, head, row, begin + w.warp() * kWarpLanes,
                    a.kv_len - a.tokens + (first_row + row) / group);
    consumer_barrier();
    for (u32 row = 0; row < rows; ++row)
      merge_warps(w, a, s, row, piece, (first_row + row) / group, head * group + (first_row + row) % group);
  }
}

}  // namespace

MK_BODY void mkb_attend_f32(Worker* w, const AttendArgs* a, u32 head, u32 piece) {
  attend<F32>(*w, *a, head, piece);
}
MK_BODY void mkb_attend_bf16(Worker* w, const AttendArgs* a, u32 head, u32 piece) {
  attend<Bf16>(*w, *a, head, piece);
}
MK_BODY void mkb_attend_f16(Worker* w, const AttendArgs* a, u32 head, u32 piece) {
  attend<F16>(*w, *a, head, piece);
}

// One key/value head: merges the parts of its query rows in piece order.
MK_BODY void mkb_combine(Worker* w, const AttendArgs* a, u32 head) {
  const u32 group = a->heads / a->kv_heads, width = group * a->head_dim;
  const u32 pieces = (a->kv_len + kPiece - 1) / kPiece - a->first_piece;
  for (u32 i = w->thread; i < a->tokens * width; i += kConsumerThreads) {
    const u32 token = i / width, q_head = head * group + i % width / a->head_dim, d = i % a->head_dim;
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
