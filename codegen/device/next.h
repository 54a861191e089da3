// Of tasks that make rows for a norm and products: what these take of them (NextArgs).
#pragma once

#include "codegen/device/bodies.h"

namespace mk {

// Of column `col` of the row that begins at element `begin`: leaves it rounded, adds its square.
MK_INLINE f32 leave_rounded(const NextArgs& next, u32 begin, u32 col, f32 v, f32 squares) {
  if (!next.norm) return 0;
  Bf16::store(next.rounded + (begin + col) * Bf16::bytes, v * next.norm[col]);
  return __builtin_fmaf(v, v, squares);
}

// The sum of the threads' squares, as `part`. The barrier that follows a task keeps the scratch until then.
MK_INLINE void leave_squares(const Worker& w, const NextArgs& next, u32 part, f32 squares) {
  if (!next.norm) return;
  AS3 f32* sums = (AS3 f32*)w.scratch();
  const f32 sum = mk_warp_sum(squares);
  if (w.lane() == 0) sums[w.warp()] = sum;
  consumer_barrier();
  if (w.thread != 0) return;
  f32 all = 0;
  for (u32 i = 0; i < kConsumerWarps; ++i) all += sums[i];
  next.squares[part] = all;
}

}  // namespace mk
