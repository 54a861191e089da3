// Expert tasks multiply the rows that route gave to each active expert. Tasks of expert_sum add up each
// token's choices.
#include "codegen/device/norm_outputs.h"
#include "codegen/device/product_multiply.h"

namespace mk {

namespace {

// Scratch adds to ProductScratch what the products of experts keep for a segment.
struct Scratch : ProductScratch {
  // [active expert]: its first row; the element behind the last one is the number of all rows. `gathered` is
  // by row here.
  AS3 uint16_t* begin;
  MK_INLINE explicit Scratch(const Worker& w)
      : ProductScratch(w), begin((AS3 uint16_t*)(gathered + kMaxTokens * kMaxTopK)) {}
};
static_assert(kEpilogueBytes + (kPartials + kMaxTokens + kBlockSums) * 4 + kMaxTokens * kMaxTopK +
                  (kMaxExperts + 1) * 2 <=
              kScratchBytes);

// row_at() is row `row` of an array of rows of f32, or of bf16 if `x_bf16`.
template <class T>
MK_INLINE T* row_at(T* rows, u32 row, u32 cols, bool x_bf16) {
  return (T*)((AS1 char*)rows + (u64)row * cols * (x_bf16 ? Bf16::bytes : sizeof(f32)));
}

// run() multiplies the strips of a task with the rows of its active expert. A fault may let this task run
// ahead of route. The rows are then any, within bounds, and the same for all threads.
template <class W>
MK_INLINE void run(Worker& w, const ExpertArgs& a, u32 block, u32 active_expert) {
  const Scratch s(w);
  const u32 strip = block * a.strips;
  ProductArgs p = laundered(a.product);
  p.tokens = min((u32)s.begin[active_expert + 1] - s.begin[active_expert], a.product.tokens);
  const u32 begin = min(s.begin[active_expert], a.rows - p.tokens);
  p.first_out = begin;
  if (p.biased_experts)
    p.first_bias = min(a.expert[active_expert], p.biased_experts - 1) * p.epilogue->out_cols;
  p.gather_expert_rows = a.gather_rows;
  if (!a.gather_rows) p.x = row_at(p.x, begin, p.cols, p.x_bf16);
  ProductInput in(w, p);
  in.gathered += begin;
  multiply_strips<W, true>(w, in, {strip, min(a.strips, p.strips - strip)});
}

constexpr u32 kSummed = 8;  // choices of a token whose rows are loaded together

}  // namespace

// mkb_expert_rows() stores which rows each active expert has, and which rows of x these are. The body runs
// once a segment, after the segment's lookup.
MK_BODY void mkb_expert_rows(Worker* w, const ExpertArgs* a, u32 active_experts) {
  const Scratch s(*w);
  for (u32 i = w->thread; i < active_experts; i += kConsumerThreads)
    s.begin[i] = (uint16_t)a->active_expert_begin[i];
  if (w->thread == 0) s.begin[active_experts] = (uint16_t)a->rows;
  if (a->gather_rows)
    for (u32 i = w->thread; i < a->rows; i += kConsumerThreads)
      s.gathered[i] = (uint8_t)min(a->token[i], a->product.tokens - 1);
  consumer_barrier();
}

#define MK_EXPERT(name, type)                                                                    \
  MK_BODY void mkb_expert_##name(Worker* w, const ExpertArgs* a, u32 block, u32 active_expert) { \
    run<WeightsOf<WeightType::type>>(*w, *a, block, active_expert);                              \
  }
MKRT_EACH_WEIGHT_TYPE(MK_EXPERT)

MK_BODY void mkb_expert_sum(Worker* w, const ExpertSumArgs* a, u32 token, u32 block) {
  f32 sum_squares = 0;
  for (u32 col = block * kExpertSumColumns + w->thread; col < min(a->cols, (block + 1) * kExpertSumColumns);
       col += kConsumerThreads) {
    f32 sum = 0;
    const f32 residual = a->residual ? a->residual[token * a->cols + col] : 0;
    for (u32 first = 0; first < a->top_k; first += kSummed) {
      u32 row[kSummed];
      f32 routing_weight[kSummed], x[kSummed];
      MK_UNROLL
      for (u32 i = 0; i < kSummed; ++i) {
        const u32 choice = token * a->top_k + min(first + i, a->top_k - 1);
        row[i] = min(a->row[choice], a->rows - 1);
        routing_weight[i] = a->routing_weight[choice];
      }
      MK_UNROLL
      for (u32 i = 0; i < kSummed; ++i) x[i] = a->x[row[i] * a->cols + col];
      MK_UNROLL
      for (u32 i = 0; i < kSummed; ++i)
        if (first + i < a->top_k) sum = __builtin_fmaf(routing_weight[i], x[i], sum);
    }
    if (a->residual) sum = residual + sum;
    a->out[token * a->cols + col] = sum;
    sum_squares = store_x_bf16(a->norm_outputs, token * a->cols, col, sum, sum_squares);
  }
  store_sum_squares(*w, a->norm_outputs,
                    token * ((a->cols + kExpertSumColumns - 1) / kExpertSumColumns) + block, sum_squares);
}

}  // namespace mk
