// mkb_split_k_reduce() finishes strips of split products. The sums of all K slices are added in the order of
// an unsplit product.
#include "codegen/device/product_multiply.h"

namespace mk {

MK_BODY void mkb_split_k_reduce(Worker* w, const ProductArgs* a, u32 strip, u32 strips) {
  const ProductInput in(*w, *a);
  if (a->epilogue->sumsq_partials != 0) {
    consumer_barrier();  // others may still read the scales of the strips before
    mkb_product_squares(w, a);
  }
  const u32 entries = strips * a->tokens * kStripRows;
  for (u32 first = 0; first < entries; first += kConsumerThreads) {
    const u32 entry = first + w->thread, row = entry % kStripRows, token = entry / kStripRows % a->tokens,
              of = strip + entry / kStripRows / a->tokens;
    const bool there = entry < entries;
    const EpilogueOperands operands = load_epilogue_operands(*a, of, token, row, there);
    const auto sum = [&](u32 r) {
      f32 total = 0;
      MK_UNROLL
      for (u32 k_slice = 0; k_slice < kKSlices; ++k_slice) total += sums_of(*a, of, k_slice, token)[r];
      return total;
    };
    const f32 v = there ? epilogue(*a, of, token, row, in.missing_scale(token), operands, sum) : 0;
    store_norm_outputs(*a, of, token, row, there, operands.norm, v);
  }
}

}  // namespace mk
