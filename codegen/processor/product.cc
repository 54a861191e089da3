// The processor has these product bodies: dense products, experts, and the reduction of split products.
#include "codegen/processor/epilogue.h"
#include "codegen/processor/product_amx.h"

namespace mk {

namespace {

MK_INLINE f32* sums_at(const EpilogueArgs& e, const ProductArgs& a, u32 strip, u32 k_slice, u32 token) {
  return plain(e.sums) + (((u64)strip * kKSlices + k_slice) * a.tokens + token) * kStripRows;
}

// x_row_of() is the row of x of a token.
MK_INLINE u32 x_row_of(const ProductArgs& a, u32 token) {
  if (!plain(a.epilogue)->gather_rows || a.tokens == a.x_rows) return token;
  return a.first_row[token] + a.q_len[token] - 1;
}

// finish_tokens() finishes a strip for `tokens` tokens from `token` on. All products share its code.
__attribute__((noinline)) void finish_tokens(const Worker& w, const ProductArgs& a, u32 strip, u32 token,
                                             u32 tokens, const f32x16* sums) {
  const f32* scale = thread_of(w).scale + token;
  for (u32 t = 0; t < tokens; ++t) finish(a, strip, token + t, sums[t], scale[t]);
}

template <class W>
MK_INLINE void start(const Worker& w, const ProductArgs& a) {
  const Rows<W> rows(w, a);
  rows.put_all(w, a, a.tokens, [&](u32 token) { return x_row_of(a, token); });
}

// multiply_strips() multiplies strips [strip, end) with all rows, over K slices [from, to). Dense products
// and experts share its code, which is long.
template <class W>
__attribute__((noinline)) void multiply_strips(const Worker& w, const ProductArgs& a, const char* weights,
                                               u32 strip, u32 end, u32 from, u32 to) {
  const auto finish = [&](u32 s, u32 token, u32 tokens, const f32x16* sums) {
    finish_tokens(w, a, s, token, tokens, sums);
  };
  const auto store_slice = [&](u32 s, u32 k_slice, u32 token, f32x16 sums) {
    store(sums_at(*plain(a.epilogue), a, s, k_slice, token), sums);
  };
#ifdef __AMX_BF16__
  if constexpr (Steps<W::type>::amx) {
    const AmxProduct<W> product{amx_memory_of(w),          Rows<W>(w, a), a.tokens,
                                strip_bytes_of(a, W::row), from,          to};
    return product(weights, strip, end, finish, store_slice);
  }
#endif
  multiply_all(w, Product<W>(w, a, weights, from, to), strip, end, finish, store_slice);
}

// multiply_tasks() multiplies strips from task `task` on. Tasks of a split product are all strips of one part
// of the K slices, then those of the next part; a call stays within a part.
template <class W>
MK_INLINE void multiply_tasks(const Worker& w, const ProductArgs& a, u32 task, u32 strips) {
  const EpilogueArgs& e = *plain(a.epilogue);
  const u32 parts = a.splits ? e.split_k : 1, part = parts == 1 ? 0 : task / e.all_strips,
            strip = task - part * e.all_strips, of_part = kKSlices / parts;
  multiply_strips<W>(w, a, thread_of(w).streamed, strip, strip + strips, part * of_part,
                     (part + 1) * of_part);
}

// run_expert() multiplies the strips of a task with the rows of its active expert. Consecutive tasks of an
// expert share prepared rows. A worker that has given up a wait may run ahead of route. The expert's number
// may then be any, so the task is left out.
template <class W>
MK_INLINE void run_expert(const Worker& w, const ExpertArgs& a, u32 block, u32 active_expert) {
  if (w.gave_up()) return;
  Thread& t = thread_of(w);
  ProductArgs p = a.product;
  p.tokens = min(t.expert_begin[active_expert + 1] - t.expert_begin[active_expert], a.product.tokens);
  const u32 begin = min(t.expert_begin[active_expert], a.rows - p.tokens), first = block * a.strips,
            end = min(p.strips, first + a.strips);
  p.first_out = begin;
  if (p.biased_experts)
    p.first_bias = min(a.expert[active_expert], p.biased_experts - 1) * plain(p.epilogue)->out_cols;
  if (t.prepared_expert != active_expert) {
    const Rows<W> rows(w, p);
    rows.put_all(w, p, p.tokens, [&](u32 i) {
      return a.gather_rows ? min(a.token[begin + i], a.product.tokens - 1) : begin + i;
    });
    t.prepared_expert = active_expert;
  }
  const u64 expert_bytes = p.strips * strip_bytes_of(p, W::row);
  const char* weights = t.streamed + a.expert[active_expert] * expert_bytes;
  multiply_strips<W>(w, p, weights, first, end, 0, kKSlices);
}

}  // namespace

MK_BODY AS3 EpilogueArgs* mkd_epilogue_args(Worker* w, u32 depth) {
  return (AS3 EpilogueArgs*)&thread_of(*w).epilogue[depth];
}

// mkb_product_start_*() prepares the rows of x, once before the first strip of a segment.
#define MK_PRODUCT(name, type)                                                             \
  MK_BODY void mkb_product_start_##name(Worker* w, const ProductArgs* a) {                 \
    start<WeightsOf<WeightType::type>>(*w, *a);                                            \
  }                                                                                        \
  MK_BODY void mkb_product_##name(Worker* w, const ProductArgs* a, u32 task, u32 strips) { \
    multiply_tasks<WeightsOf<WeightType::type>>(*w, *a, task, strips);                     \
  }
MKRT_EACH_WEIGHT_TYPE(MK_PRODUCT)

MK_BODY void mkb_split_k_reduce(Worker*, const ProductArgs* a, u32 strip, u32 strips) {
  const EpilogueArgs& e = *plain(a->epilogue);
  for (u32 token = 0; token < a->tokens; ++token) {
    const f32 scale = e.sumsq_partials == 0 ? 1 : norm_scale(*a, token);
    for (u32 s = strip; s < strip + strips; ++s) {
      f32x16 total = all_lanes(0);
      for (u32 k_slice = 0; k_slice < kKSlices; ++k_slice)
        total += load<f32x16>(sums_at(e, *a, s, k_slice, token));
      finish(*a, s, token, total, scale);
    }
  }
}

// mkb_expert_rows() keeps where the rows of each active expert begin, once a segment.
MK_BODY void mkb_expert_rows(Worker* w, const ExpertArgs* a, u32 active_experts) {
  u32* begin = thread_of(*w).expert_begin;
  for (u32 i = 0; i < active_experts; ++i) begin[i] = a->active_expert_begin[i];
  begin[active_experts] = a->rows;
  thread_of(*w).prepared_expert = kNoExpert;
}

#define MK_EXPERT(name, type)                                                                    \
  MK_BODY void mkb_expert_##name(Worker* w, const ExpertArgs* a, u32 block, u32 active_expert) { \
    run_expert<WeightsOf<WeightType::type>>(*w, *a, block, active_expert);                       \
  }
MKRT_EACH_WEIGHT_TYPE(MK_EXPERT)

}  // namespace mk
