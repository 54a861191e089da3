// Attention multiplies f32 caches by multiply-adds. Each lane has the key of one position, and two columns of
// all values.
#pragma once

#include "codegen/device/attend.h"

namespace mk {

// load4() reads elements [i, i + 4) of a position in a stage. Zeros lie behind the end of a row.
MK_INLINE f32x4 load4(AS3 const char* rows, u32 position, u32 i) {
  return *(AS3 const f32x4*)(rows + StageRows<F32>::at(position, i * sizeof(f32)));
}

struct FmaForm {
  static constexpr u32 kRows = kQueryTileRowsF32;

  f32 score[kRows];  // score of this lane's position
  f32x2 sum[kRows];  // columns 2 * lane and 2 * lane + 1

  // weights() are the weights of one of the warp's positions, by row. The array overlaps the queries, which
  // nobody needs by then.
  MK_INLINE static AS3 f32* weights(const Warp& warp, u32 index) {
    return (AS3 f32*)warp.scratch.q + (warp.number() * kWarpLanes + index) * kRows;
  }

  MK_INLINE static f32 round(f32 value) { return value; }
  MK_INLINE static void put_query(AS3 char* q, u32 row, u32 i, f32 value) {
    ((AS3 f32*)q)[row * kMaxHeadDim + i] = value;
  }
  // end_query() clears the elements behind a query. The keys are 0 there, and NaN times 0 would be NaN.
  MK_INLINE static void end_query(const Worker& w, AS3 char* q, u32 row, u32 head_dim) {
    if (head_dim % 4 != 0 && w.lane() < 2) put_query(q, row, head_dim + w.lane(), 0);
  }

  // FmaForm reads no unseen positions, so it clears none.
  MK_INLINE static void clear_unseen(const Warp&, u32, AS3 char*) {}

  MK_INLINE void begin() {
    MK_UNROLL
    for (u32 row = 0; row < kRows; ++row) score[row] = 0;
  }

  // add_keys() multiplies columns [column, column + kValueColumns) of the keys.
  MK_INLINE void add_keys(const Warp& warp, AS3 const char* rows, u32 column) {
    const u32 position = warp.first + warp.lane(), columns = min(warp.a.head_dim - column, kValueColumns);
    if (position < warp.tile.begin || position >= warp.tile.end) return;
    for (u32 i = 0; i < columns; i += 4) {
      const f32x4 k = load4(rows, warp.lane(), i);
      MK_UNROLL
      for (u32 row = 0; row < kRows; ++row) {
        const f32x4 q = *(AS3 const f32x4*)((AS3 const f32*)warp.scratch.q + row * kMaxHeadDim + column + i);
        MK_UNROLL
        for (u32 e = 0; e < 4; ++e) score[row] = __builtin_fmaf(q[e], k[e], score[row]);
      }
    }
  }

  MK_INLINE void hide_unseen(const Warp& warp, f32 scale) {
    MK_UNROLL
    for (u32 row = 0; row < kRows; ++row)
      score[row] = warp.tile.seen_by(warp.a, row)(warp.first + warp.lane()) ? score[row] * scale : kNoScore;
  }

  MK_INLINE void put_greatest(const Warp& warp) {
    MK_UNROLL
    for (u32 row = 0; row < kRows; ++row) {
      const f32 max = mk_warp_max(score[row]);
      if (warp.lane() == 0) warp.scratch.greatest(row)[warp.number()] = max;
    }
  }

  MK_INLINE void weigh(const Warp& warp) {
    f32x4 weight[kRows / 4];
    MK_UNROLL
    for (u32 row = 0; row < kRows; ++row) {
      weight[row / 4][row % 4] = partial_weight(score[row], warp.scratch.greatest_of_all(row));
      const f32 total = mk_warp_sum(weight[row / 4][row % 4]);
      if (warp.lane() == 0) warp.scratch.total(row)[warp.number()] = total;
    }
    MK_UNROLL
    for (u32 i = 0; i < kRows / 4; ++i) ((AS3 f32x4*)weights(warp, warp.lane()))[i] = weight[i];
    mk_warp_sync();
  }

  MK_INLINE void begin_sums() {
    MK_UNROLL
    for (u32 row = 0; row < kRows; ++row) sum[row] = 0;
  }

  MK_INLINE void add_values(const Warp& warp, AS3 const char* rows, u32 column) {
    if (column + 2 * warp.lane() >= warp.a.head_dim) return;
    const u32 begin = warp.tile.begin > warp.first ? warp.tile.begin - warp.first : 0;
    const u32 left = warp.tile.end > warp.first ? warp.tile.end - warp.first : 0;
    const u32 end = left < kWarpLanes ? left : kWarpLanes;
    for (u32 i = begin; i < end; ++i) {
      const f32x2 value = *(AS3 const f32x2*)(rows + StageRows<F32>::at(i, 2 * warp.lane() * sizeof(f32)));
      MK_UNROLL
      for (u32 row = 0; row < kRows; ++row) {
        const f32 weight = weights(warp, i)[row];
        MK_UNROLL
        for (u32 e = 0; e < 2; ++e) sum[row][e] = __builtin_fmaf(weight, value[e], sum[row][e]);
      }
    }
  }

  MK_INLINE void put_sums(const Warp& warp, u32) const {
    MK_UNROLL
    for (u32 row = 0; row < kRows; ++row)
      *(AS3 f32x2*)(warp.scratch.sum(warp.number(), row, warp.lane() / 2 * 4) + warp.lane() % 2 * 2) =
          sum[row];
  }
};

}  // namespace mk
