// MmaForm and FmaForm, the two forms of attention, share these parts. They have the places of a request's
// rows and cache, the stages of keys and values, and the scratch.
//
// A KV tile is kKvTile positions from a multiple of kKvTile on. Each consumer warp has 32 of these positions.
// Query rows of a row block go through a KV tile in query tiles (QueryTile). The heads of a token's group
// follow each other in a query tile.
//
// A row's result depends on its position and the cache alone. The rows beside it, the rest of the batch, the
// cuts of a prompt and the places of pages do not change its bits. KV tiles are therefore always added in
// order to KV chunks of kKvChunk positions. KV chunks are added in order to the whole. The order is the same
// whether a partial is a KV tile or all that its rows see of a KV chunk.
#pragma once

#include "codegen/device/rotate.h"

namespace mk {

constexpr f32 kNoScore = -__builtin_inff();

// The warps add up 8 query rows and 64 columns of values at a time.
constexpr u32 kSumRows = 8;
constexpr u32 kValueColumns = 64;
static_assert(kQueryTileRows == 2 * kSumRows && kQueryTileRowsF32 == kSumRows);

struct AttendScratch {
  static constexpr u32 kQueryBytes = kQueryTileRows * 2 * kMaxHeadDim;
  static constexpr u32 kStepVectorBytes = kMaxHeadDim * 2;
  AS3 char* q;        // queries, in the layout of the form
  AS3 char* step_kv;  // a key, and a value kStepVectorBytes behind it: see keeps_step_kv()
  AS3 f32* base;

  MK_INLINE explicit AttendScratch(const Worker& w)
      : q(w.scratch()), step_kv(q + kQueryBytes), base((AS3 f32*)(step_kv + 2 * kStepVectorBytes)) {}
  // greatest() and total() are a row's greatest score and its sum of weights, [warp].
  MK_INLINE AS3 f32* greatest(u32 row) const { return base + row * kConsumerWarps; }
  MK_INLINE AS3 f32* total(u32 row) const { return greatest(kQueryTileRows + row); }
  // sum() is what a warp adds to 4 neighbouring columns, from a multiple of 4 on. The order of these fours
  // spreads over all banks what 8 lanes write at a time.
  MK_INLINE AS3 f32* sum(u32 warp, u32 row, u32 column) const {
    const u32 four = (column / 16 + column / 4 % 4 * 4) ^ row % 2 * 4;
    return greatest(2 * kQueryTileRows) + (warp * kSumRows + row) * kValueColumns + four * 4;
  }
  MK_INLINE f32 greatest_of_all(u32 row) const {
    static_assert(kConsumerWarps == 8);
    const f32x4 low = *(AS3 const f32x4*)greatest(row), high = *(AS3 const f32x4*)(greatest(row) + 4);
    f32 all = kNoScore;
    MK_UNROLL
    for (u32 i = 0; i < 4; ++i) all = __builtin_fmaxf(all, __builtin_fmaxf(low[i], high[i]));
    return all;
  }
};
static_assert(AttendScratch::kQueryBytes + 2 * AttendScratch::kStepVectorBytes +
                  (2 * kQueryTileRows + kSumRows * kValueColumns) * kConsumerWarps * sizeof(f32) <=
              kScratchBytes);

// partial_weight() is the weight of a score m, or of a partial with greatest score m, in a whole with
// greatest score `all`.
MK_INLINE f32 partial_weight(f32 m, f32 all) {
  return m == kNoScore ? 0 : mk_exp2(m - all);
}

// Merge adds two sums over different positions. `before` and `more` scale either sum to the greatest score of
// both.
struct Merge {
  f32 greatest, before, more;
  MK_INLINE Merge(f32 greatest_before, f32 greatest_more)
      : greatest(__builtin_fmaxf(greatest_before, greatest_more)),
        before(partial_weight(greatest_before, greatest)),
        more(partial_weight(greatest_more, greatest)) {}
  MK_INLINE f32 operator()(f32 sum, f32 other) const { return __builtin_fmaf(other, more, sum * before); }
};

template <class C>
constexpr bool kScaled = __is_same(C, E4m3);

// Rows is a row block, for one key/value head.
struct Rows {
  u32 first, count;  // rows [first, first + count) of the step
  u32 kv_len;        // positions of the request up to the last of these rows
  u32 request, head;
  MK_INLINE Rows(const AttendArgs& a, u32 block, u32 head_number)
      : first(a.first_row[block]),
        count(a.rows[block]),
        kv_len(a.kv_len[block]),
        request(a.request[block]),
        head(head_number) {}
  MK_INLINE u32 first_position() const { return kv_len - count; }  // of the first row
  // earlier() counts the positions that were in the cache before the step.
  MK_INLINE u32 earlier(const AttendArgs& a) const { return a.context[request] - a.step_rows[request]; }
  // written_by_attend() is true for a request's last row block. The tasks that attend to it write its keys
  // and values; append writes those of other row blocks.
  MK_INLINE bool written_by_attend(const AttendArgs& a) const { return kv_len == a.context[request]; }
  // offset_of() is the byte offset of a position in a cache. The position must have a page.
  MK_INLINE u64 offset_of(const PagedCache& c, u32 position) const {
    const u32 page = c.page_index[c.page_begin[request] + (position >> c.page_shift)];
    return page * c.page_stride + (position & ((1u << c.page_shift) - 1)) * c.position_stride +
           head * c.head_stride;
  }
};

// partial_row() is the index of row x of a row block in a partial. Rows count the tokens of the row block and
// the heads of the group.
MK_INLINE u64 partial_row(const AttendArgs& a, const Rows& block, u32 partial, u32 x) {
  const u32 group = a.heads / a.kv_heads;
  return ((u64)partial * a.tokens + block.first + x / group) * a.heads + block.head * group + x % group;
}

// first_seen() is the first position that the row at position `last` sees.
MK_INLINE u32 first_seen(const AttendArgs& a, u32 last) {
  return a.window != 0 && last + 1 > a.window ? last + 1 - a.window : 0;
}
// first_kv_tile() is the first KV tile that the rows see. Partials are numbered from this KV tile on.
MK_INLINE u32 first_kv_tile(const AttendArgs& a, const Rows& block) {
  return first_seen(a, block.first_position()) / kKvTile;
}

// KvTile is a KV tile and the partial it belongs to.
struct KvTile {
  u32 begin;    // the first position
  u32 partial;  // the number of the partial in the row block
  bool first;   // whether this is the first KV tile of the partial
  MK_INLINE KvTile(const AttendArgs& a, const Rows& block, u32 partial_number, u32 number)
      : begin(first_kv_tile(a, block) * kKvTile + partial_number * a.partial_positions + number * kKvTile),
        partial(partial_number),
        first(number == 0) {}
};

// Seen is the range of positions that a row sees.
struct Seen {
  u32 first, count;
  MK_INLINE bool operator()(u32 position) const { return position - first < count; }
};

// QueryTile is the query rows [first, first + count) of a row block that go through a KV tile together. Row x
// of the row block is head x % group of token x / group.
struct QueryTile {
  u32 first, count, group;
  u32 first_position;  // of token 0
  u32 begin, end;      // positions [begin, end) that some row sees
  MK_INLINE QueryTile(const AttendArgs& a, const Rows& block, u32 first_row, u32 max)
      : first(first_row), group(a.heads / a.kv_heads), first_position(block.first_position()) {
    const u32 left = block.count * group - first;
    count = left < max ? left : max;
    begin = first_seen(a, first_position + token(0));
    end = first_position + token(count - 1) + 1;
  }
  MK_INLINE u32 token(u32 row) const { return (first + row) / group; }
  MK_INLINE u32 head(u32 row) const { return (first + row) % group; }  // head number in the group
  MK_INLINE Seen seen_by(const AttendArgs& a, u32 row) const {
    const u32 last = first_position + token(row), first_of_row = first_seen(a, last);
    return {first_of_row, row < count ? last + 1 - first_of_row : 0};
  }
  MK_INLINE bool sees(u32 from, u32 to) const { return from < end && to > begin; }
};

constexpr u32 kPlacePositions = 16;  // positions that always share a page
static_assert(kKvTile == kPlaces * kPlacePositions);

// Keys and values come through the ring. A query tile takes the keys first, kValueColumns columns at a
// time, and then the values. Stages whose positions no row of it sees are left out.
template <class C>
struct StageRows {
  static constexpr u32 kPitch = kValueColumns * C::bytes;  // bytes from one position to the next
  static constexpr u32 kPositions = min(kStageBytes / kPitch, kKvTile);
  static constexpr u32 kChunks = kPitch / 16;
  // at() is where a byte of a position lies. Chunks of 16 bytes are swizzled, so that lanes that read
  // neighbouring positions together use all banks.
  MK_INLINE static u32 at(u32 position, u32 byte) { return position * kPitch + (byte ^ swizzle(position)); }
  // swizzle() is an XOR swizzle of the byte offset, linear over disjoint bits of `position`. The swizzle of a
  // multiple of 8 is 0.
  MK_INLINE static u32 swizzle(u32 position) {
    return ((position & 1) * 4 ^ (position & 2) ^ (position >> 2 & 1) * 5) * kChunkBytes & (kPitch - 1);
  }
};

// cached_end_of() is the end of the positions whose vectors the loader brings: those in the cache before the
// step. The end is 0 if a head's vector is not a multiple of 16 bytes. The loader leaves only the address of
// a head's vector for other positions, and put_rows() copies the vector into the stage.
template <class C>
MK_INLINE u32 cached_end_of(const AttendArgs& a, const Rows& block) {
  return a.head_dim * C::bytes % kChunkBytes == 0 ? block.earlier(a) : 0;
}

// keeps_step_kv() tells whether a query tile of one row finds its key and value in shared memory, rounded as
// in the cache. The task has written them itself, and the loader has brought all other positions. Vectors of
// f32 would not fit.
template <class C>
MK_INLINE bool keeps_step_kv(const AttendArgs& a, const Rows& block) {
  return C::bytes <= 2 && block.count == 1 && block.written_by_attend(a) &&
         block.earlier(a) == block.first_position() && a.head_dim * C::bytes % kChunkBytes == 0;
}

// Warp is the context of a warp's work. The forms of attention hold numbers only, so that these stay in
// registers.
struct Warp {
  Worker& w;
  const AttendArgs& a;
  const AttendScratch& scratch;
  const QueryTile& tile;
  u32 first;           // the first of the warp's 32 positions
  u32 cached_end;      // result of cached_end_of()
  bool keeps_step_kv;  // result of keeps_step_kv()
  MK_INLINE u32 lane() const { return w.lane(); }
  MK_INLINE u32 number() const { return w.warp(); }
  // sees(): some row sees some position of the warp. sees_all(): each position of the warp is seen by some
  // row.
  MK_INLINE bool sees() const { return tile.sees(first, first + kWarpLanes); }
  MK_INLINE bool sees_all() const { return tile.begin <= first && first + kWarpLanes <= tile.end; }
};

// load_chunk() reads bytes [byte, byte + 16) of a row of `bytes` bytes, and zeros from the end of the row on.
MK_INLINE u32x4 load_chunk(AS1 const char* row, u32 byte, u32 bytes) {
  if (bytes % kChunkBytes == 0) return *(AS1 const u32x4*)(row + byte);
  u32x4 words = u32x4(0);
  MK_UNROLL
  for (u32 i = 0; i < kChunkBytes; ++i)
    if (byte + i < bytes) words[i / 4] |= (u32)(uint8_t)row[byte + i] << i % 4 * 8;
  return words;
}

// put_rows() replaces the addresses in a stage by the vectors they point to, some rows at a time. `step_kv`
// is the step's own vector (keeps_step_kv()).
template <class C>
MK_INLINE void put_rows(const Warp& warp, u32 column, AS3 const char* step_kv, AS3 char* rows) {
  using S = StageRows<C>;
  constexpr u32 kAtOnce = 4, kStep = kWarpLanes / S::kChunks;
  const u32 begin = warp.tile.begin > warp.cached_end ? warp.tile.begin : warp.cached_end,
            bytes = warp.a.head_dim * C::bytes, to = min(warp.tile.end - warp.first, kWarpLanes),
            byte = warp.lane() % S::kChunks * kChunkBytes, at = column * C::bytes + byte;
  if (warp.keeps_step_kv) {
    const u32 row = warp.tile.first_position - warp.first;
    if (row < kWarpLanes && warp.lane() < S::kChunks && at < bytes)
      *(AS3 u32x4*)(rows + S::at(row, byte)) = *(AS3 const u32x4*)(step_kv + at);
    return;
  }
  MK_ROLLED
  for (u32 from = begin > warp.first ? begin - warp.first : 0; from < to; from += kAtOnce * kStep) {
    const auto row = [&](u32 i) { return from + i * kStep + warp.lane() / S::kChunks; };
    u32x4 chunk[kAtOnce];
    MK_UNROLL
    for (u32 i = 0; i < kAtOnce; ++i) {
      chunk[i] = u32x4(0);
      if (row(i) < to && at < bytes && !warp.w.gave_up())
        chunk[i] = load_chunk((AS1 const char*)*(AS3 const u64*)(rows + S::at(row(i), 0)), at, bytes);
    }
    mk_warp_sync();
    MK_UNROLL
    for (u32 i = 0; i < kAtOnce; ++i)
      if (row(i) < to && at < bytes) *(AS3 u32x4*)(rows + S::at(row(i), byte)) = chunk[i];
  }
}

// pass_stages() acquires and releases the stages of [from, to) of a KV tile, which other warps read.
template <class C>
MK_INLINE void pass_stages(const Warp& warp, u32 from, u32 to) {
  const u32 kv_tile = warp.first - warp.number() * kWarpLanes;
  MK_ROLLED
  for (u32 first = kv_tile + from; first < kv_tile + to; first += StageRows<C>::kPositions) {
    if (!warp.tile.sees(first, first + StageRows<C>::kPositions)) continue;
    acquire_stage(warp.w);
    release_stage(warp.w);
  }
}

// take_rows() takes the stages of `column` of keys or values. use(rows) gets the warp's positions if some row
// sees one of them. `step_kv` is the step's own vector (keeps_step_kv()).
template <class C, class Form, class Use>
MK_INLINE void take_rows(const Warp& warp, u32 column, AS3 const char* step_kv, Use use) {
  using S = StageRows<C>;
  const u32 mine = warp.number() * kWarpLanes / S::kPositions * S::kPositions;
  pass_stages<C>(warp, 0, warp.sees() ? mine : kKvTile);
  if (!warp.sees()) return;
  AS3 char* rows = acquire_stage(warp.w) + (warp.number() * kWarpLanes - mine) * S::kPitch;
  put_rows<C>(warp, column, step_kv, rows);
  Form::clear_unseen(warp, column, rows);
  mk_warp_sync();
  use(rows);
  release_written_stage(warp.w);
  pass_stages<C>(warp, mine + S::kPositions, kKvTile);
}

}  // namespace mk
