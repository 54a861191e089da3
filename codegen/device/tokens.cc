// Embed tasks copy rows of the embedding table for the tokens of a step.
#include "codegen/device/norm_outputs.h"
#include "codegen/device/weights.h"

namespace mk {

namespace {

template <class W>
MK_INLINE void embed(const Worker& w, const EmbedArgs& a, u32 token) {
  const PackedShape shape = packed_shape(a.vocab, a.cols, W::type);
  const u32 row = a.tokens[token];
  f32 sum_squares = 0;
  for (u32 col = w.thread; col < a.cols; col += kConsumerThreads) {
    const f32 v = W::X::load(a.table + packed_offset(shape, row, col));
    a.out[token * a.cols + col] = v;
    sum_squares = store_x_bf16(a.norm_outputs, token * a.cols, col, v, sum_squares);
  }
  store_sum_squares(w, a.norm_outputs, token, sum_squares);
}

}  // namespace

MK_BODY void mkb_embed_f32(Worker* w, const EmbedArgs* a, u32 token) {
  embed<WeightsOf<WeightType::kF32>>(*w, *a, token);
}
MK_BODY void mkb_embed_bf16(Worker* w, const EmbedArgs* a, u32 token) {
  embed<WeightsOf<WeightType::kBf16>>(*w, *a, token);
}
MK_BODY void mkb_embed_f16(Worker* w, const EmbedArgs* a, u32 token) {
  embed<WeightsOf<WeightType::kF16>>(*w, *a, token);
}

}  // namespace mk
