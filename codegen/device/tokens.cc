// The two ends of a step: token to embedding row, best logit to token.
#include "codegen/device/bodies.h"

namespace mk {

namespace {

template <class W>
MK_INLINE void embed(const Worker& w, const EmbedArgs& a, u32 token) {
  const PackedShape shape = packed_shape(a.vocab, a.cols, W::bytes);
  const u32 row = a.tokens[token];
  for (u32 col = w.thread; col < a.cols; col += kConsumerThreads)
    a.out[token * a.cols + col] = W::load(a.table + packed_offset(shape, row, col));
}

MK_INLINE bool better(f32 value, u32 index, f32 than_value, u32 than_index) {
  return value > than_value || (value == than_value && index < than_index);
}

}  // namespace

MK_BODY void mkb_embed_f32(Worker* w, const EmbedArgs* a, u32 token) {
  embed<F32>(*w, *a, token);
}
MK_BODY void mkb_embed_bf16(Worker* w, const EmbedArgs* a, u32 token) {
  embed<Bf16>(*w, *a, token);
}
MK_BODY void mkb_embed_f16(Worker* w, const EmbedArgs* a, u32 token) {
  embed<F16>(*w, *a, token);
}

// The greatest of a row's candidates, the lowest index on ties.
MK_BODY void mkb_sample(Worker* w, const SampleArgs* a, u32 token) {
  AS3 f32* values = (AS3 f32*)w->scratch();
  AS3 u32* indices = (AS3 u32*)(values + kConsumerThreads);
  f32 value = -__builtin_inff();
  u32 index = 0xffffffffu;
  for (u32 i = w->thread; i < a->strips; i += kConsumerThreads) {
    const f32 v = a->best_value[token * a->strips + i];
    const u32 at = a->best_index[token * a->strips + i];
    if (better(v, at, value, index)) value = v, index = at;
  }
  values[w->thread] = value;
  indices[w->thread] = index;
  for (u32 half = kConsumerThreads / 2; half > 0; half /= 2) {
    consumer_barrier();
    const u32 other = w->thread + half;
    if (w->thread < half && better(values[other], indices[other], values[w->thread], indices[w->thread])) {
      values[w->thread] = values[other];
      indices[w->thread] = indices[other];
    }
  }
  if (w->thread == 0) a->next[token] = indices[0] == 0xffffffffu ? 0 : indices[0];
}

}  // namespace mk
