// Task bodies and their arguments. The scaffold fills the arguments from a grid's operands and sizes. Most
// sizes are constants there, so a body is specialised by inlining; those of products come from the grid's
// record, so that they share one piece of code.
//
// Activations are row-major, and f32 but for those that only products read. The suffix of a body is the type
// of the weights (product, embed) or of the cache (attend). All consumer threads of a worker call a body
// together; consumer_barrier() comes before and, where something waits for the task, after.
#pragma once

#include "codegen/device/worker.h"
#include "runtime/sampling.h"

namespace mk {

// Of the rows of weights behind `cols`. A constant of the code: loads of activations need no branches then.
constexpr u32 kPaddedCols = 128;  // rows of weights are padded to a multiple of it, or of a divisor of it
enum Padding : u32 { kNoPadding, kPadding, kPaddingOfOdd };
MK_INLINE constexpr Padding padding_of(u32 cols) {
  return cols % 2 != 0 ? kPaddingOfOdd : cols % kPaddedCols != 0 ? kPadding : kNoPadding;
}

// Of rows that a norm and products read next: what these take of them. norm [cols] or null, then nothing is
// left; rounded [T, cols] bf16: a row's elements times the norm's; sum_squares [T, parts]: the sums of
// sum_squares of its parts.
struct NormOutputs {
  AS1 const f32* norm;
  AS1 char* x_bf16;
  AS1 f32* sum_squares;
};

// Element i of what is f32, or bf16 where it is rounded.
MK_INLINE void store_out(AS1 f32* out, u64 i, f32 v, bool x_bf16) {
  if (x_bf16)
    Bf16::store((AS1 char*)out + i * Bf16::bytes, v);
  else
    out[i] = v;
}

// What becomes of a product's sums: bias [rows] or null, residual and out [T, out_cols], best_* [T, strips]
// or null. x that are rounded have sums of sum_squares, sum_squares [T, parts] or null. Of a product that is
// split its parts write, and what finishes it reads, sums [strips, kKSlices, T, kStripRows].
struct EpilogueArgs {
  AS1 const f32* sum_squares;
  AS1 const f32* bias;
  AS1 const f32* residual;
  AS1 f32* out;
  AS1 f32* sums;
  NormOutputs norm_outputs;
  AS1 f32* best_value;
  AS1 u32* best_index;
  u32 rows, out_cols;
  u32 gather_rows;     // as many rows of x are picked as out has (mkb_product_rows)
  Gate gate;           // whether rows are pairs of gate and up rows, and what joins them
  u32 sumsq_partials;  // partial sums of squares of a row of x that are given; 0: none are
  u32 out_bf16;        // out is bf16
  f32 eps;             // of the norm
  u32 all_strips;      // of the weight
  u32 split_k;         // that share out the K slices: then tasks are strips of a part; 1: it is not split
};

// The scratch of products: what they, and what runs inline within their segments, need at the ends of strips,
// a warp's own, so that nothing but its own lanes has to be waited for; a task's sums; what a segment keeps.
constexpr u32 kEndsDepth = 2;
constexpr u32 kEpilogueBytes = kEndsDepth * kConsumerWarps * sizeof(EpilogueArgs);
constexpr u32 kBlockSums =
    kStripRows * 32;  // a warp's: rows of a block's strips times tokens of a group, at most
constexpr u32 kPartials = kConsumerWarps * kBlockSums;
constexpr u32 kProductSumBytes = (kPartials + kBlockSums) * sizeof(f32);

// x [T, cols], norm [cols] or null. Activations f32, row-major; x that are rounded are bf16, and have been
// multiplied with the norm. What only ends of strips need is in shared memory: registers are for sums.
struct ProductArgs {
  AS1 const f32* x;
  AS1 const f32* norm;
  AS3 const EpilogueArgs* epilogue;
  u32 cols, strips;
  u32 tiles, tail_cols;      // of a strip; columns of its last tile
  u32 tokens;                // rows of out,
  u32 first_out;             // from this one on
  u32 x_rows;                // the step's tokens
  AS3 const u32* q_len;      // the tokens of each request,
  AS3 const u32* first_row;  // and the first of them, by which rows are picked
  u32 streamed_split_k;      // split_k, for the loader, which has no ends
  // Constants of the code.
  u32 splits;              // it serves products that are split, too
  u32 gates;               // bit g: some product of the kernel has Gate g; a constant of the code
  u32 mma64_strips;        // of a block of many tokens
  u32 wgmma_from;          // tokens from which on warpgroups multiply; 0: never
  u32 normed;              // there is a norm
  u32 x_bf16;              // x is bf16
  u32 gather_expert_rows;  // an expert's: its rows of x are picked
  u32 padding;             // Padding
};

// Where the keys and values of the requests lie: pages of 1 << page_shift positions, at least 16. Strides in
// bytes; a head's elements lie together.
struct PagedCache {
  AS1 char* k;
  AS1 char* v;
  AS1 const f32* k_scale;  // by head; of caches of E4m3
  AS1 const f32* v_scale;
  u64 page_stride, position_stride, head_stride;
  AS1 const u32* page_begin;  // by request: its first entry of page_index
  AS1 const u32* page_index;
  u32 page_shift;
};

// q [T, heads*head_dim], k and v [T, kv_heads*head_dim] f32 as projected; rope [positions, head_dim]:
// cosines, then sines; q_norm, k_norm [head_dim] or null; of each part partial_acc [T, heads*head_dim] and
// partial_ml [T, 2*heads]: greatest score (base 2) and sum; out [T, heads*head_dim]. By row block
// (ir/values.h): its request, first_row and rows of the step, kv_len positions in the cache up to its last
// row. By request: context, the positions with all its rows of the step, which are step_rows.
struct AttendArgs {
  AS1 const f32* q;
  AS1 const f32* k;
  AS1 const f32* v;
  AS1 const u32* positions;
  AS1 const f32* rope;
  AS1 const f32* q_norm;
  AS1 const f32* k_norm;
  PagedCache cache;
  AS1 f32* partial_acc;
  AS1 f32* partial_ml;
  AS1 f32* out;
  AS3 const u32* request;
  AS3 const u32* first_row;
  AS3 const u32* rows;
  AS3 const u32* kv_len;
  AS3 const u32* context;
  AS3 const u32* step_rows;
  u32 tokens;
  u32 partial_positions;  // its positions (ir/values.h)
  u32 out_bf16;           // out is bf16
  u32 window;             // positions that a token sees, its own included; 0: all
  u32 heads, kv_heads, head_dim;
  f32 q_eps, k_eps;
  f32 scale;  // of the scores, times log2(e)
};

// Positions of a context that attention adds up to pieces, and these to spans (ir/values.h).
constexpr u32 kKvTile = kConsumerThreads;
constexpr u32 kKvChunk = 8 * kKvTile;
constexpr u32 kBusyKvChunks = 16;
// Query rows that the warps of a worker take through a piece together.
constexpr u32 kBlockRows = 16;
constexpr u32 kBlockRowsF32 = 8;  // with f32 caches

constexpr u32 kMaxExperts = 512;
constexpr u32 kMaxTopK = 16;

// logits [T, experts]; share [T, top_k]. The experts that any token chose are numbered, in order, as slots:
// slots [1]: how many; expert, active_expert_rows and active_expert_begin [experts]: of each slot, its
// expert, its tokens and those of the slots before it. token [T * top_k]: the tokens of each slot, in order,
// slot by slot. row [T, top_k]: the place of each of a token's choices among these.
struct RouteArgs {
  AS1 const f32* logits;
  AS1 f32* share;
  AS1 u32* active_experts;
  AS1 u32* expert;
  AS1 u32* active_expert_rows;
  AS1 u32* active_expert_begin;
  AS1 u32* token;
  AS1 u32* row;
  u32 tokens, experts, top_k, norm_topk;
};

// The product of each slot's rows with its expert's weights. `product`: its weight is [experts][rows, cols],
// its out [rows, out_cols], its tokens the step's; it has no bias, residual, next or best, and picks nothing.
// token [rows]: the row of product.x of each row, if `gather_rows`; else product.x is [rows, cols]. The rest
// as route writes it.
struct ExpertArgs {
  ProductArgs product;
  AS1 const u32* expert;
  AS1 const u32* active_expert_rows;
  AS1 const u32* active_expert_begin;
  AS1 const u32* token;
  u32 rows;                 // of all slots
  u32 strips, gather_rows;  // of a task; constants of the code
};

// out [T, cols] = residual [T, cols] or 0, plus the rows of x [rows, cols] of a token's choices times its
// shares, in the order of the choices; share and row as route writes them.
struct ExpertSumArgs {
  AS1 const f32* x;
  AS1 const f32* share;
  AS1 const u32* row;
  AS1 const f32* residual;
  AS1 f32* out;
  NormOutputs norm_outputs;
  u32 cols, rows, top_k;
};
constexpr u32 kSumCols = 2 * kConsumerThreads;  // of out, a task's

// tokens [T]; table: a packed weight [vocab, cols]; out [T, cols] f32.
struct EmbedArgs {
  AS1 const u32* tokens;
  AS1 const char* table;
  AS1 f32* out;
  NormOutputs norm_outputs;
  u32 vocab, cols;
};

// One sample of each request that is to have one, from its last row of the step.
// logits [T, vocab], vocab at most kMaxVocab, not changed; best_* [T, ceil(vocab / 16)]: the greatest logit
// of each strip and its id, the lowest on ties; next [requests]: the token sampled, of others not set. By
// request of the step: first_row, rows, and its slot, the number it has in the launch and in `samples`.
struct SampleArgs {
  AS1 const f32* logits;
  AS1 const f32* best_value;
  AS1 const u32* best_index;
  AS1 u32* next;
  AS1 const MkSample* samples;
  AS1 const u32* slot;
  AS3 const u32* first_row;
  AS3 const u32* rows;
  u32 logit_rows, tokens;  // as many, or else each request has one row
  u32 vocab;
};

extern "C" {
void mkd_begin(Worker*, AS1 const MkSession*, AS1 const MkStep*, u32 stages);
void mkd_step_begin(Worker*, AS1 const MkSession*, AS1 const MkStep*);
bool mkd_next_step(Worker*, AS1 const MkSession*, AS1 MkStep*, u32 tokens_symbol, u32 requests_symbol,
                   u32 logit_rows_symbol);
bool mkd_loader_join(Worker*, AS1 const MkStep*, u32* symbols);
bool mkd_loader_next_step(Worker*, AS1 const MkSession*, AS1 const MkStep*, u32* symbols, u32 tokens_symbol);
void mkd_segments_begin(Worker*, u32 first, u32 last);
AS3 const SegmentAhead* mkd_segment_begin(Worker*, u32 at, u32 first, u32 last);
void mkd_segments_end(Worker*, u32 first, u32 last);
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
void mkd_stream_bulk(Worker*, AS1 const char* weights, const ProductArgs*, u32 elem_bytes, u32 first,
                     u32 count);
void mkd_stream_async(Worker*, AS1 const char* weights, const ProductArgs*, u32 elem_bytes, u32 first,
                      u32 count);
void mkd_stream_experts_bulk(Worker*, AS1 const char* weights, const ExpertArgs*, u32 active_experts,
                             u32 elem_bytes, u32 first, u32 count);
void mkd_stream_experts_async(Worker*, AS1 const char* weights, const ExpertArgs*, u32 active_experts,
                              u32 elem_bytes, u32 first, u32 count);
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
void mkb_product_f32(Worker*, const ProductArgs*, u32 task, u32 strips);
void mkb_product_bf16(Worker*, const ProductArgs*, u32 task, u32 strips);
void mkb_product_f16(Worker*, const ProductArgs*, u32 task, u32 strips);
void mkb_split_k_reduce(Worker*, const ProductArgs*, u32 strip, u32 strips);
void mkb_append_f32(Worker*, const AttendArgs*, u32 head, u32 row_block);
void mkb_append_bf16(Worker*, const AttendArgs*, u32 head, u32 row_block);
void mkb_append_f16(Worker*, const AttendArgs*, u32 head, u32 row_block);
void mkb_append_e4m3(Worker*, const AttendArgs*, u32 head, u32 row_block);
// `kv_tile`: of the partial; `block`: of the query rows that go through a piece together. The first one, of a
// request's last row block, stores that block's keys and values.
void mkb_attend_f32(Worker*, const AttendArgs*, u32 head, u32 row_block, u32 partial, u32 kv_tile, u32 block);
void mkb_attend_bf16(Worker*, const AttendArgs*, u32 head, u32 row_block, u32 partial, u32 kv_tile,
                     u32 block);
void mkb_attend_f16(Worker*, const AttendArgs*, u32 head, u32 row_block, u32 partial, u32 kv_tile, u32 block);
void mkb_attend_e4m3(Worker*, const AttendArgs*, u32 head, u32 row_block, u32 partial, u32 kv_tile,
                     u32 block);
void mkb_combine(Worker*, const AttendArgs*, u32 head, u32 row_block);
void mkb_embed_f32(Worker*, const EmbedArgs*, u32 token);
void mkb_embed_bf16(Worker*, const EmbedArgs*, u32 token);
void mkb_embed_f16(Worker*, const EmbedArgs*, u32 token);
void mkb_route(Worker*, const RouteArgs*);
void mkb_expert_rows(Worker*, const ExpertArgs*, u32 slots);
void mkb_expert_f32(Worker*, const ExpertArgs*, u32 block, u32 active_expert);
void mkb_expert_bf16(Worker*, const ExpertArgs*, u32 block, u32 active_expert);
void mkb_expert_f16(Worker*, const ExpertArgs*, u32 block, u32 active_expert);
void mkb_expert_sum(Worker*, const ExpertSumArgs*, u32 token, u32 block);
void mkb_sample(Worker*, const SampleArgs*, u32 request);

// All threads of a kernel of `workers` times `threads`: packs rows of a weight.
void mkd_pack(AS1 const MkPack*, u32 workers, u32 threads);
}

}  // namespace mk
