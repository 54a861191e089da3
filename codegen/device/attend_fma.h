// Attention by multiply-adds, for caches of f32: each lane has one position's key, and two columns of all
// values.
#pragma once

#include "codegen/device/attend.h"

namespace mk {

// Elements [i, i + 4) of a vector of an even number, 0 from its end on.
MK_INLINE f32x4 load4(AS1 const f32* vector, u32 i, u32 count) {
  if (count % 4 == 0) return *(AS1 const f32x4*)(vector + i);
  const f32x2 low = *(AS1 const f32x2*)(vector + i);
  const f32x2 high = i + 2 < count ? *(AS1 const f32x2*)(vector + i + 2) : f32x2(0);
  return f32x4{low[0], low[1], high[0], high[1]};
}

struct FmaForm {
  static constexpr u32 kRows = kBlockRowsF32;

  f32 score[kRows];  // of this lane's position
  f32x2 sum[kRows];  // of columns 2 * lane and the next

  // In the place of the queries, once nobody needs them: of one of the warp's positions, by row.
  MK_INLINE static AS3 f32* weights(const Warp& x, u32 index) {
    return (AS3 f32*)x.scratch.q + (x.warp() * kWarpLanes + index) * kRows;
  }

  MK_INLINE static f32 round(f32 value) { return value; }
  MK_INLINE static void put_query(AS3 char* q, u32 row, u32 i, f32 value, u32) {
    ((AS3 f32*)q)[row * kMaxHeadDim + i] = value;
  }
  // What lies behind a query meets zeros, and must be a number.
  MK_INLINE static void end_query(const Worker& w, AS3 char* q, u32 row, u32 head_dim) {
    if (head_dim % 4 != 0 && w.lane() < 2) put_query(q, row, head_dim + w.lane(), 0, head_dim);
  }

  MK_INLINE void multiply_keys(const Warp& x) {
    const u32 position = x.at.first + x.lane();
    MK_UNROLL
    for (u32 row = 0; row < kRows; ++row) score[row] = 0;
    if (position >= x.b.begin && position < x.b.end) {
      AS1 const f32* key = (AS1 const f32*)(x.a.cache.k + x.at.at(x.lane()));
      for (u32 i = 0; i < x.a.head_dim; i += 4) {
        const f32x4 k = load4(key, i, x.a.head_dim);
        MK_UNROLL
        for (u32 row = 0; row < kRows; ++row) {
          const f32x4 q = *(AS3 const f32x4*)((AS3 const f32*)x.scratch.q + row * kMaxHeadDim + i);
          MK_UNROLL
          for (u32 e = 0; e < 4; ++e) score[row] = __builtin_fmaf(q[e], k[e], score[row]);
        }
      }
    }
  }

  MK_INLINE void hide_unseen(const Warp& x, f32 scale) {
    MK_UNROLL
    for (u32 row = 0; row < kRows; ++row)
      score[row] = x.b.visible(x.a, row, x.at.first + x.lane()) ? score[row] * scale : kNone;
  }

  MK_INLINE void put_greatest(const Warp& x) {
    MK_UNROLL
    for (u32 row = 0; row < kRows; ++row) {
      const f32 most = mk_warp_max(score[row]);
      if (x.lane() == 0) x.scratch.greatest(row)[x.warp()] = most;
    }
  }

  MK_INLINE void weigh(const Warp& x) {
    MK_UNROLL
    for (u32 row = 0; row < kRows; ++row) {
      const f32 weight = part_weight(score[row], x.scratch.greatest_of_all(row)), total = mk_warp_sum(weight);
      weights(x, x.lane())[row] = weight;
      if (x.lane() == 0) x.scratch.total(row)[x.warp()] = total;
    }
    mk_warp_sync();
  }

  MK_INLINE void multiply_values(const Warp& x, u32 column) {
    const u32 mine = column + 2 * x.lane();
    MK_UNROLL
    for (u32 row = 0; row < kRows; ++row) sum[row] = 0;
    if (mine >= x.a.head_dim) return;
    const u32 begin = x.b.begin > x.at.first ? x.b.begin - x.at.first : 0;
    const u32 left = x.b.end > x.at.first ? x.b.end - x.at.first : 0;
    const u32 end = left < kWarpLanes ? left : kWarpLanes;
    for (u32 i = begin; i < end; ++i) {
      const f32x2 value = *(AS1 const f32x2*)(x.a.cache.v + x.at.at(i) + mine * sizeof(f32));
      MK_UNROLL
      for (u32 row = 0; row < kRows; ++row) {
        const f32 weight = weights(x, i)[row];
        MK_UNROLL
        for (u32 e = 0; e < 2; ++e) sum[row][e] = __builtin_fmaf(weight, value[e], sum[row][e]);
      }
    }
  }

  MK_INLINE void put_sums(const Warp& x, u32) const {
    MK_UNROLL
    for (u32 row = 0; row < kRows; ++row)
      *(AS3 f32x2*)(x.scratch.sum(x.warp(), row, x.lane() / 2 * 4) + x.lane() % 2 * 2) = sum[row];
  }
};

}  // namespace mk
