// Head vectors of queries and keys get their norm and their rotation here.
#pragma once

#include "codegen/device/bodies.h"

namespace mk {

// HeadPairs has a lane's elements of the two halves of a head vector: elements lane, lane + 32 and so on of
// each half. All loads are issued before the first value is needed.
struct HeadPairs {
  static constexpr u32 kCount = kMaxHeadDim / 2 / kWarpLanes;
  f32 low[kCount], high[kCount];

  MK_INLINE HeadPairs(const Worker& w, AS1 const f32* x, u32 head_dim) {
    MK_UNROLL
    for (u32 k = 0; k < kCount; ++k) {
      const u32 i = k * kWarpLanes + w.lane();
      low[k] = high[k] = 0;
      if (i < head_dim / 2) low[k] = x[i], high[k] = x[head_dim / 2 + i];
    }
  }
};

// rotate_head() is called by one warp for one head vector. An optional norm over the head comes first. The
// halves are then rotated (Su et al. 2021, in the half-split form), unless `rotated` is false; `rope` may be
// anything then. store(i, value) gets each element once.
template <class Store>
MK_INLINE void rotate_head(const Worker& w, AS1 const f32* x, AS1 const f32* norm, f32 eps, bool rotated,
                           AS1 const f32* rope, u32 head_dim, Store store) {
  const HeadPairs head(w, x, head_dim), turn(w, rotated ? rope : x, head_dim),
      weight(w, norm ? norm : x, head_dim);
  f32 scale = 1;
  if (norm) {
    f32 sum = 0;
    MK_UNROLL
    for (u32 k = 0; k < HeadPairs::kCount; ++k)
      sum = __builtin_fmaf(head.high[k], head.high[k], __builtin_fmaf(head.low[k], head.low[k], sum));
    scale = mk_rsqrt(mk_warp_sum(sum) / (f32)head_dim + eps);
  }
  MK_UNROLL
  for (u32 k = 0; k < HeadPairs::kCount; ++k) {
    const u32 i = k * kWarpLanes + w.lane();
    if (i >= head_dim / 2) continue;
    f32 low = head.low[k] * scale, high = head.high[k] * scale;
    if (norm) low *= weight.low[k], high *= weight.high[k];
    if (!rotated) {
      store(i, low), store(head_dim / 2 + i, high);
      continue;
    }
    store(i, low * turn.low[k] - high * turn.high[k]);
    store(head_dim / 2 + i, high * turn.low[k] + low * turn.high[k]);
  }
}

}  // namespace mk
