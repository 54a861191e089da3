// Task bodies and their arguments are declared here for the scaffold, the emulator and tests. The scaffold
// (codegen/scaffold.cc) fills the arguments from a grid's operands and sizes. Most sizes are constants of the
// generated code, so inlining specialises a body. Sizes of products come from the grid's record (MkGrid), so
// all products share one piece of code.
//
// Activations are row-major and f32; those that only products read may be bf16. A body's suffix is the type
// of its weights (product, expert, embed) or of its cache (attend, append). All consumer threads of a worker
// call a body together. consumer_barrier() comes before a body. Another one follows where something waits for
// the task.
#pragma once

#include "codegen/device/attend_args.h"
#include "codegen/device/weights.h"
#include "runtime/abi/row_steps.h"
#include "runtime/abi/sampling.h"

namespace mk {

// Padding describes the columns behind `cols` in a row of weights. The value is a constant of the code, so
// that loads of activations need no branches. Rows of weights are padded to a multiple of kPaddedCols, or of
// a divisor of it, unless their format has a greater quantum. kPaddingOfChunks: chunks of 16 bytes of bf16
// have no column behind `cols`, or have nothing else.
constexpr u32 kPaddedCols = 128;
enum Padding : u32 { kNoPadding, kPaddingOfChunks, kPadding, kPaddingOfOdd };
MK_INLINE constexpr Padding padding_of(u32 cols, WeightType type) {
  const u32 quantum = col_quantum(weight_format(type)),
            multiple = quantum > kPaddedCols ? quantum : kPaddedCols;
  if (cols % multiple == 0) return kNoPadding;
  if (cols % (kChunkBytes / Bf16::bytes) == 0) return kPaddingOfChunks;
  return cols % 2 == 0 ? kPadding : kPaddingOfOdd;
}

// NormOutputs are what a norm and its products need of the rows that a task writes.
//
// norm [cols]: the weights of the norm; null: the task leaves no norm outputs.
// x_bf16 [T, cols]: the elements of a row times the weights of the norm, as bf16.
// sum_squares [T, parts]: partial sums of squares of a row.
struct NormOutputs {
  AS1 const f32* norm;
  AS1 char* x_bf16;
  AS1 f32* sum_squares;
};

// store_out() writes element i as f32, or as bf16 if `x_bf16`.
MK_INLINE void store_out(AS1 f32* out, u64 i, f32 v, bool out_bf16) {
  if (out_bf16)
    Bf16::store((AS1 char*)out + i * Bf16::bytes, v);
  else
    out[i] = v;
}

// EpilogueArgs say what a product does with its sums.
//
// bias [rows] or null; residual (or null) and out [T, out_cols]. Those of experts are bias [experts,
// out_cols] or null, and up_bias [experts, out_cols] where rows are pairs. The gate rows then have the
// elements of bias. best_value, best_index [T, strips] or null. sum_squares [T, sumsq_partials] or null:
// partial sums of squares of the rows of a bf16 x. sums [strips, kKSlices, T, kStripRows]: written by tasks
// of split products, read by mkb_split_k_reduce().
struct EpilogueArgs {
  AS1 const f32* sum_squares;
  AS1 const f32* bias;
  union {
    AS1 const f32* residual;
    AS1 const f32* up_bias;  // of experts, which have no residual
  };
  AS1 f32* out;
  AS1 f32* sums;
  NormOutputs norm_outputs;
  AS1 f32* best_value;
  AS1 u32* best_index;
  u32 rows, out_cols;
  u32 gather_rows;     // rows of x are gathered, as many as out has (mkb_product_rows)
  Activation gate;     // what joins pairs of gate and up rows; kNone: rows are no pairs
  u32 sumsq_partials;  // partial sums of squares for each row of x; 0: there are none
  u32 out_bf16;        // out is bf16
  f32 eps;             // epsilon of the norm
  u32 all_strips;      // strips of the weight
  u32 split_k;         // parts that share the K slices; a task is one strip of a part; 1: not split
};

// The scratch of products holds EpilogueArgs, the sums of a task, and what a segment keeps. Each warp has its
// own EpilogueArgs for the product and for what runs inline in its segment. A warp thus waits for its own
// lanes only.
constexpr u32 kEpilogueDepth = 2;
constexpr u32 kEpilogueBytes = kEpilogueDepth * kConsumerWarps * sizeof(EpilogueArgs);
// kBlockSums is the most sums of a warp: rows of a block's strips times tokens of a group.
constexpr u32 kBlockSums = kStripRows * 32;
constexpr u32 kPartials = kConsumerWarps * kBlockSums;
constexpr u32 kProductSumBytes = (kPartials + kBlockSums) * sizeof(f32);

// EpiloguePart is what some epilogues do. EpilogueArgs lie in shared memory, so only ProductArgs::left_out
// tells the compiler that a part is never there.
enum EpiloguePart : u32 {
  kBiasPart = 1,
  kResidualPart = 2,
  kNormOutputsPart = 4,
  kBestPart = 8,
  kGatePart = 16,
  kGatherPart = 32,
};

// x is [T, cols], row-major; norm is [cols] or null. x is f32, or bf16 that has been multiplied with the
// weights of the norm. codes [x_rows, cols] are rows of x as E4M3, and code_scale [x_rows] is what they are
// to be multiplied with (mkb_quantize()). Values that only the epilogue needs are in shared memory, because
// registers are reserved for accumulators.
struct ProductArgs {
  AS1 const f32* x;
  AS1 const f32* norm;
  AS1 const char* codes;
  AS1 const f32* code_scale;
  AS3 const EpilogueArgs* epilogue;
  u32 cols, strips;
  u32 tiles, tail_cols;      // tiles of a strip; columns of its last tile
  u32 tokens;                // rows of out
  u32 first_out;             // the first row of out
  u32 first_bias;            // the expert's first element of bias and up_bias; 0 for other products
  u32 x_rows;                // tokens of the step
  AS3 const u32* q_len;      // [request]: its rows of x, for gathering
  AS3 const u32* first_row;  // [request]: its first row of x, for gathering
  u32 streamed_split_k;      // split_k for the loader, which has no EpilogueArgs
  // The fields below are constants of the code.
  u32 splits;              // the code serves split products, too
  u32 gates;               // bit g: some product of the kernel has Activation g
  u32 left_out;            // each EpiloguePart that no product of the code has
  u32 max_tokens;          // most rows of x
  u32 mma64_strips;        // strips of a block of more than kSameStreamTokens
  u32 wgmma_from;          // fewest tokens of Wgmma128; 0: never
  u32 fp8_from;            // fewest tokens whose activations are 8-bit floats; 0: never
  u32 has_codes;           // Wgmma128 multiplies codes
  u32 normed;              // there is a norm
  u32 x_bf16;              // x is bf16
  u32 gather_expert_rows;  // rows of x are gathered for an expert
  u32 biased_experts;      // experts with a bias; 0: the product has none of an expert
  u32 padding;             // a value of Padding
};

constexpr u32 kMaxExperts = 512;
constexpr u32 kMaxTopK = 16;

// An active expert is one that some token chose. Active experts are numbered in the order of their expert
// numbers.
//
// logits [T, experts]; routing_weight [T, top_k].
// active_experts [1]: the number of active experts.
// expert [experts]: the number of each active expert among the experts.
// active_expert_rows [experts]: how many tokens each active expert has.
// active_expert_begin [experts]: how many tokens the active experts before it have.
// token [T * top_k]: the tokens of each active expert, in order, one expert after the other.
// row [T, top_k]: the index in `token` of each choice of a token.
struct RouteArgs {
  AS1 const f32* logits;
  AS1 f32* routing_weight;
  AS1 u32* active_experts;
  AS1 u32* expert;
  AS1 u32* active_expert_rows;
  AS1 u32* active_expert_begin;
  AS1 u32* token;
  AS1 u32* row;
  u32 tokens, experts, top_k, norm_topk;
};

// An expert task multiplies the rows of an active expert with the weights of that expert.
//
// product: weight [experts][rows, cols], out [rows, out_cols]; `tokens` is the step's.
// product.epilogue: no residual, norm_outputs or best_*; gathers no rows.
// token [rows]: the row of product.x for each row if gather_rows is set; else product.x is [rows, cols].
// expert, active_expert_rows, active_expert_begin: outputs of route (RouteArgs).
struct ExpertArgs {
  ProductArgs product;
  AS1 const u32* expert;
  AS1 const u32* active_expert_rows;
  AS1 const u32* active_expert_begin;
  AS1 const u32* token;
  u32 rows;                 // rows of all active experts
  u32 strips, gather_rows;  // strips of a task; both are constants of the code
};

// ExpertSumArgs: out [T, cols] is residual [T, cols] or 0, plus the token's rows of x [rows, cols] times its
// routing weights. A token's choices are added in their order. routing_weight and row are outputs of route
// (RouteArgs).
struct ExpertSumArgs {
  AS1 const f32* x;
  AS1 const f32* routing_weight;
  AS1 const u32* row;
  AS1 const f32* residual;
  AS1 f32* out;
  NormOutputs norm_outputs;
  u32 cols, rows, top_k;
};
constexpr u32 kExpertSumColumns = 2 * kConsumerThreads;  // columns of out in a task

// RowArgs: out [rows, cols] is x [x_rows, cols] after an optional norm, an optional rotation of heads, and
// steps.
//
// norm, norm_bias [norm_cols] or null; norm_cols is cols, or the width of a head.
// positions [rows]: the position of each row. rope [positions, head_dim]: as in AttendArgs. head_dim is 0
// where nothing is rotated.
// operand [rows, cols]: of steps that have one.
// best_value, best_index [rows, ceil(cols / 16)] or null: as in SampleArgs.
// first_row and q_len are lists by request, for gathering: row t of out is the last row of request t.
struct RowArgs {
  AS1 const f32* x;
  AS1 const f32* norm;
  AS1 const f32* norm_bias;
  AS1 const u32* positions;
  AS1 const f32* rope;
  AS1 const f32* operand[kMaxRowOperands];
  AS1 f32* out;
  NormOutputs norm_outputs;
  AS1 f32* best_value;
  AS1 u32* best_index;
  AS3 const u32* first_row;
  AS3 const u32* q_len;
  u32 rows, x_rows;
  // The fields below are constants of the code.
  u32 gather_rows;
  u32 cols, block_cols;  // columns of a row and of a task
  u32 norm_cols, head_dim;
  u32 centered;  // the norm subtracts the mean first
  u32 out_bf16;
  f32 eps;
  RowStep step[kMaxRowSteps];
  f32 value[kMaxRowSteps];
};
constexpr u32 kRowCols = 2 * kConsumerThreads;

// QuantizeArgs: codes [rows, cols] is x [rows, cols], scaled and rounded to E4M3. code_scale [rows] is what
// codes are to be multiplied with, 1 / root mean square included where the rows have sum_squares [rows,
// sumsq_partials].
struct QuantizeArgs {
  AS1 const char* x;  // bf16
  AS1 const f32* sum_squares;
  AS1 char* codes;
  AS1 f32* code_scale;
  u32 cols;            // a multiple of 16
  u32 sumsq_partials;  // 0: there are no sum_squares
  f32 eps;
};

// EmbedArgs are tokens [T]; table: a packed weight [vocab, cols]; out [T, cols] f32.
struct EmbedArgs {
  AS1 const u32* tokens;
  AS1 const char* table;
  AS1 f32* out;
  NormOutputs norm_outputs;
  u32 vocab, cols;
};

// A task samples one token for a request that wants a sample, from the logits of its last row of the step.
//
// logits [T, vocab]: not changed; vocab is at most kMaxVocab.
// best_value [T, ceil(vocab / 16)]: the greatest logit of each strip; best_index: its id, the lowest on ties.
// next [requests]: the token sampled; unset for requests without a sample.
// first_row, rows, launch_request: lists by request of the step.
// launch_request: the number of the request in the launch and in `samples`.
struct SampleArgs {
  AS1 const f32* logits;
  AS1 const f32* best_value;
  AS1 const u32* best_index;
  AS1 u32* next;
  AS1 const MkSample* samples;
  AS1 const u32* launch_request;
  AS3 const u32* first_row;
  AS3 const u32* rows;
  u32 logit_rows, tokens;  // equal if each token has logits; else each request has one row
  u32 vocab;
};

extern "C" {
void mkd_begin(Worker*, AS1 const MkSession*, AS1 const MkStep*, u32 stages);
void mkd_step_begin(Worker*, AS1 const MkSession*, AS1 const MkStep*);
bool mkd_next_step(Worker*, AS1 const MkSession*, AS1 MkStep*, u32 tokens_symbol, u32 requests_symbol,
                   u32 logit_rows_symbol);
bool mkd_loader_join(Worker*, AS1 const MkStep*, u32* symbols);
bool mkd_loader_next_step(Worker*, AS1 const MkSession*, AS1 const MkStep*, u32* symbols, u32 tokens_symbol);
void mkd_segments_begin(Worker*);
AS3 const SegmentAhead* mkd_segment_begin(Worker*, u32 at);
void mkd_segments_end(Worker*);
AS3 const Arenas* mkd_arenas(Worker*);
void mkd_load_list(Worker*, AS1 const MkStep*, u32 number, u32 list, u32 count);
void mkd_set_element(Worker*, u32 list, u32 index, u32 value);
void mkd_sum_list(Worker*, u32 list, u32 count);
AS3 u32* mkd_list(Worker*, u32 list);
AS3 EpilogueArgs* mkd_epilogue_args(Worker*, u32 depth);
void mkd_lists_made(Worker*);
bool mkd_await_lists(Worker*, u32 number);
u32 mkd_element(Worker*, u32 list, u32 index);
u32 mkd_row_of(Worker*, u32 list, u32 count, u32 task);
void mkd_size_partials(Worker*, u32 word, u32 q_len, u32 kv_len, u32 requests, u32 max_rows, u32 slots);
void mkd_cut_rows(Worker*, u32 before_last, u32 requests, u32 max_rows, u32 q_len, u32 first_row, u32 kv_len,
                  u32 block_request, u32 block_rows, u32 block_first_row, u32 block_kv_len);
void mkd_wait(Worker*, u32 cell, u32 expected);
void mkd_notify(Worker*, u32 cell, u32 count);
u32 mkd_notify_last(Worker*, u32 cell, u32 count, u32 expected);
u32 mkd_ones_from(u32 mask, u32 bit);
void mkd_notify_logged(Worker*, u32 cell, u32 count, u32 expected, u32 log, u32 number);
u32 mkd_next_queued(Worker*, u32 tickets);
u32 mkd_next_ready(Worker*, u32 tickets, u32 tasks, u32 grid, u32 log, u32 per_cell);
u32 mkd_next_handed(Worker*);
u32 mkd_hand_over(Worker*, u32 tickets);
void mkd_hand_back(Worker*, u32 task);
u32 mkd_next_handed_back(Worker*);
void mkd_barrier();
void mkd_task_begin(Worker*, u32 grid, u32 task);
void mkd_task_ready(Worker*, u32 tasks);
void mkd_task_end(Worker*, u32 tasks);
void mkd_task_left(Worker*, u32 begin, u32 bytes);
void mkd_load_begin(Worker*, u32 grid, u32 first, u32 count);
void mkd_load_end(Worker*, u32 grid, u32 end);
void mkd_stream_bulk(Worker*, AS1 const char* weights, const ProductArgs*, WeightType type, u32 first,
                     u32 count);
void mkd_stream_async(Worker*, AS1 const char* weights, const ProductArgs*, WeightType type, u32 first,
                      u32 count);
void mkd_stream_experts_bulk(Worker*, AS1 const char* weights, const ExpertArgs*, u32 active_experts,
                             WeightType type, u32 first, u32 count);
void mkd_stream_experts_async(Worker*, AS1 const char* weights, const ExpertArgs*, u32 active_experts,
                              WeightType type, u32 first, u32 count);
u32 mkd_look_up(Worker*, u32 grid, u32 cell, u32 expected, AS1 const u32* table, u32 max);
u32 mkd_loader_look_up(Worker*, u32 grid, u32 cell, u32 expected, AS1 const u32* table, u32 max);
void mkd_stream_cache_f32(Worker*, const AttendArgs*, u32 head, u32 row_block, u32 partial);
void mkd_stream_cache_bf16(Worker*, const AttendArgs*, u32 head, u32 row_block, u32 partial);
void mkd_stream_cache_f16(Worker*, const AttendArgs*, u32 head, u32 row_block, u32 partial);
void mkd_stream_cache_e4m3(Worker*, const AttendArgs*, u32 head, u32 row_block, u32 partial);
void mkd_loader_end(Worker*);

void mkb_product_rows(Worker*, const ProductArgs*);
void mkb_product_norm(Worker*, const ProductArgs*);
void mkb_product_squares(Worker*, const ProductArgs*);
#define MK_DECLARE_PRODUCT(name, type) \
  void mkb_product_##name(Worker*, const ProductArgs*, u32 task, u32 strips);
MKRT_EACH_WEIGHT_TYPE(MK_DECLARE_PRODUCT)
void mkb_split_k_reduce(Worker*, const ProductArgs*, u32 strip, u32 strips);
void mkb_append_f32(Worker*, const AttendArgs*, u32 head, u32 row_block);
void mkb_append_bf16(Worker*, const AttendArgs*, u32 head, u32 row_block);
void mkb_append_f16(Worker*, const AttendArgs*, u32 head, u32 row_block);
void mkb_append_e4m3(Worker*, const AttendArgs*, u32 head, u32 row_block);
// `kv_tile` is the number of a KV tile in the partial. `query_tile` is the number of a query tile, whose rows
// go through a KV tile together. Query tile 0 of a request's last row block also stores that row block's keys
// and values.
void mkb_attend_f32(Worker*, const AttendArgs*, u32 head, u32 row_block, u32 partial, u32 kv_tile,
                    u32 query_tile);
void mkb_attend_bf16(Worker*, const AttendArgs*, u32 head, u32 row_block, u32 partial, u32 kv_tile,
                     u32 query_tile);
void mkb_attend_f16(Worker*, const AttendArgs*, u32 head, u32 row_block, u32 partial, u32 kv_tile,
                    u32 query_tile);
void mkb_attend_e4m3(Worker*, const AttendArgs*, u32 head, u32 row_block, u32 partial, u32 kv_tile,
                     u32 query_tile);
void mkb_combine(Worker*, const AttendArgs*, u32 head, u32 row_block);
void mkb_embed_f32(Worker*, const EmbedArgs*, u32 token);
void mkb_embed_bf16(Worker*, const EmbedArgs*, u32 token);
void mkb_embed_f16(Worker*, const EmbedArgs*, u32 token);
void mkb_route(Worker*, const RouteArgs*);
void mkb_expert_rows(Worker*, const ExpertArgs*, u32 active_experts);
#define MK_DECLARE_EXPERT(name, type) \
  void mkb_expert_##name(Worker*, const ExpertArgs*, u32 block, u32 active_expert);
MKRT_EACH_WEIGHT_TYPE(MK_DECLARE_EXPERT)
void mkb_expert_sum(Worker*, const ExpertSumArgs*, u32 token, u32 block);
void mkb_row(Worker*, const RowArgs*, u32 row, u32 block);
void mkb_quantize(Worker*, const QuantizeArgs*, u32 row);
void mkb_sample(Worker*, const SampleArgs*, u32 request);

// mkd_pack_TYPE() packs rows of a weight; all threads of a kernel of `workers` times `threads` call it.
#define MK_DECLARE_PACK(name, type) void mkd_pack_##name(AS1 const MkPack*, u32 workers, u32 threads);
MKRT_EACH_WEIGHT_TYPE(MK_DECLARE_PACK)
}

}  // namespace mk
