// Product bodies: a block of strips of kStripRows weight rows times up to kMaxTokens activation rows.
#include "codegen/device/product_multiply.h"

namespace mk {

using Scratch = ProductScratch;

// mkd_epilogue_args() returns the warp's EpilogueArgs. Depth 1 is for the grid that runs inline behind the
// product. The first lane of the warp may fill them. All lanes may read them after the next mk_warp_sync().
MK_BODY AS3 EpilogueArgs* mkd_epilogue_args(Worker* w, u32 depth) {
  mk_warp_sync();
  return (AS3 EpilogueArgs*)w->scratch() + depth * kConsumerWarps + w->warp();
}

// mkb_product_rows() lists the rows of x to multiply: all, or the last of each request. This body runs once,
// before the first strip of a segment.
MK_BODY void mkb_product_rows(Worker* w, const ProductArgs* a) {
  if (!gathers_rows(*a)) return;
  const u32 i = w->thread;
  if (i < a->tokens)
    Scratch(*w).gathered[i] = (uint8_t)(a->tokens == a->x_rows ? i : a->first_row[i] + a->q_len[i] - 1);
  consumer_barrier();
}

// mkb_product_norm() finds the root mean square of each row of x (Zhang and Sennrich 2019). This body runs
// once, before the first strip of a segment.
MK_BODY void mkb_product_norm(Worker* w, const ProductArgs* a) {
  const Scratch s(*w);
  const ProductInput in(*w, *a);
  for (u32 token = 0; token < a->tokens; ++token) {
    f32 sum = 0;
    for (u32 col = w->thread; col < a->cols; col += kConsumerThreads) {
      const f32 v = a->x[in.row_of(token) * a->cols + col];
      sum = __builtin_fmaf(v, v, sum);
    }
    sum = mk_warp_sum(sum);
    if (w->lane() == 0) s.partial[token * kConsumerWarps + w->warp()] = sum;
  }
  consumer_barrier();
  if (w->thread < a->tokens) {
    f32 sum = 0;
    for (u32 i = 0; i < kConsumerWarps; ++i) sum += s.partial[w->thread * kConsumerWarps + i];
    s.scale[in.row_of(w->thread)] = inverse_rms(*a, sum);
  }
  consumer_barrier();
}

// mkb_product_squares() finds the factor of each row (XRows::missing_scale()). The root mean square follows
// from the sum_squares that the writers of x left. Products of steps of up to 8 tokens do not need it:
// SumSquares adds them beside the strips.
MK_BODY void mkb_product_squares(Worker* w, const ProductArgs* a) {
  const ProductInput in(*w, *a);
  if (multiplies_codes(*a)) {
    if (w->thread < a->tokens) Scratch(*w).scale[w->thread] = a->code_scale[w->thread];
    return consumer_barrier();
  }
  AS1 const f32* sum_squares = a->epilogue->sum_squares;
  const u32 parts = a->epilogue->sumsq_partials;
  for (u32 token = w->warp(); token < a->tokens; token += kConsumerWarps) {
    const u32 row = in.row_of(token);
    f32 sum = 0;
    for (u32 i = w->lane(); i < parts; i += kWarpLanes) sum += sum_squares[row * parts + i];
    store_scale(*w, *a, row, sum);
  }
  consumer_barrier();
}

#define MK_PRODUCT(name, type)                                                             \
  MK_BODY void mkb_product_##name(Worker* w, const ProductArgs* a, u32 task, u32 strips) { \
    multiply_tasks<WeightsOf<WeightType::type>>(*w, *a, task, strips);                     \
  }
MKRT_EACH_WEIGHT_TYPE(MK_PRODUCT)

}  // namespace mk
