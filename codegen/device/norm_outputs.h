// Of tasks that make rows for a norm and products: what these take of them (NormOutputs).
#pragma once

#include "codegen/device/bodies.h"

namespace mk {

// Of column `col` of the row that begins at element `begin`: leaves it rounded, adds its square.
MK_INLINE f32 store_x_bf16(const NormOutputs& to, u32 begin, u32 col, f32 v, f32 sum_squares) {
  if (!to.norm) return 0;
  Bf16::store(to.x_bf16 + (begin + col) * Bf16::bytes, v * to.norm[col]);
  return __builtin_fmaf(v, v, sum_squares);
}

// The sum of the threads' sum_squares, as `part`. The barrier that follows a task keeps the scratch until
// then.
MK_INLINE void store_sum_squares(const Worker& w, const NormOutputs& to, u32 part, f32 sum_squares) {
  if (!to.norm) return;
  AS3 f32* sums = (AS3 f32*)w.scratch();
  const f32 sum = mk_warp_sum(sum_squares);
  if (w.lane() == 0) sums[w.warp()] = sum;
  consumer_barrier();
  if (w.thread != 0) return;
  f32 all = 0;
  for (u32 i = 0; i < kConsumerWarps; ++i) all += sums[i];
  to.sum_squares[part] = all;
}

}  // namespace mk
