// Arguments and sizes of attention are declared here.
#pragma once

#include "codegen/device/storage_types.h"

namespace mk {

// PagedCache says where the keys and values of the requests lie. A page has 1 << page_shift positions, at
// least 16. Strides are in bytes. The elements of a head are contiguous.
struct PagedCache {
  AS1 char* k;
  AS1 char* v;
  AS1 const f32* k_scale;  // [head]; caches of E4m3 only
  AS1 const f32* v_scale;
  u64 page_stride, position_stride, head_stride;
  AS1 const u32* page_begin;  // [request]: its first entry of page_index
  AS1 const u32* page_index;
  u32 page_shift;
};

// AttendArgs are shared by append, attend and combine.
//
// q [T, heads * head_dim], k and v [T, kv_heads * head_dim]: f32, as projected.
// rope [positions, head_dim]: cosines, then sines. q_norm, k_norm [head_dim] or null.
// partial_acc [partials, T, heads * head_dim]: weighted sums of values.
// partial_ml [partials, T, 2 * heads]: the greatest score (base 2) and the sum of weights.
// sinks [heads] or null: a score of each head that takes a share of the weights, and has no value.
// out [T, heads * head_dim].
//
// request, first_row, rows and kv_len are lists by row block (ir/values.h). first_row and rows are rows of
// the step. kv_len counts the request's positions up to the last row of the block. Positions of rows follow.
//
// context and step_rows are lists by request. context counts the request's positions, rows of the step
// included. step_rows counts its rows of the step.
struct AttendArgs {
  AS1 const f32* q;
  AS1 const f32* k;
  AS1 const f32* v;
  AS1 const f32* rope;
  AS1 const f32* q_norm;
  AS1 const f32* k_norm;
  PagedCache cache;
  AS1 f32* partial_acc;
  AS1 f32* partial_ml;
  AS1 const f32* sinks;
  AS1 f32* out;
  AS3 const u32* request;
  AS3 const u32* first_row;
  AS3 const u32* rows;
  AS3 const u32* kv_len;
  AS3 const u32* context;
  AS3 const u32* step_rows;
  u32 tokens;
  u32 partial_positions;  // positions of a partial: kKvTile or kKvChunk (ir/values.h)
  u32 out_bf16;           // out is bf16
  u32 rotated;            // queries and keys are rotated; a constant of the code
  u32 window;             // positions that a token sees, its own included; 0: all
  u32 heads, kv_heads, head_dim;
  f32 q_eps, k_eps;
  f32 scale;  // factor of the scores, times log2(e)
};

// A KV tile is kKvTile positions, a KV chunk kKvChunk. Attention adds positions up to KV tiles, KV tiles to
// KV chunks, and KV chunks to a row (ir/values.h). A partial is what a row sees of one KV tile, or of one KV
// chunk. The partials of a step are KV chunks if it has at least kBusyKvChunks of them, or more KV tiles than
// partial slots (mkd_size_partials). Partials of attention with a window are always KV tiles.
constexpr u32 kKvTile = kConsumerThreads;
constexpr u32 kKvChunk = 8 * kKvTile;
constexpr u32 kBusyKvChunks = 16;
// The warps of a worker take this many query rows through a KV tile together.
constexpr u32 kQueryTileRows = 16;
constexpr u32 kQueryTileRowsF32 = 8;  // query rows with f32 caches
// A head has at most this many columns.
constexpr u32 kMaxHeadDim = 256;

}  // namespace mk
