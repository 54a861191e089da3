// Tasks that write rows of x also leave norm outputs. The next norm and its products read them (NormOutputs).
#pragma once

#include "codegen/device/bodies.h"

namespace mk {

// store_x_bf16() stores column `col`, times its norm weight, as bf16. The row begins at element `begin`. The
// result is sum_squares plus the square of `v`.
MK_INLINE f32 store_x_bf16(const NormOutputs& to, u32 begin, u32 col, f32 v, f32 sum_squares) {
  if (!to.norm) return 0;
  Bf16::store(to.x_bf16 + (begin + col) * Bf16::bytes, v * to.norm[col]);
  return __builtin_fmaf(v, v, sum_squares);
}

// store_sum_squares() adds the threads' sums of squares and stores the result as element `part`. The barrier
// that follows a task protects the scratch until thread 0 has read it.
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
