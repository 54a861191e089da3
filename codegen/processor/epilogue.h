// The epilogue of a product turns its sums into results: scale, gate, bias, residual, norm outputs and the
// greatest logit. The results are those of codegen/device/epilogue.h.
#pragma once

#include "codegen/processor/activation.h"
#include "codegen/processor/worker.h"

namespace mk {

template <class V>
MK_INLINE void store_values(const EpilogueArgs& e, u64 at, V v, u32 count) {
  if (e.out_bf16)
    store_part((uint16_t*)plain(e.out) + at, bf16_lanes(v), count);
  else
    store_part(plain(e.out) + at, v, count);
}

// keep_norm_outputs() stores `count` values from column `col` on, times the norm's weights, and the sum of
// their squares.
MK_INLINE void keep_norm_outputs(const EpilogueArgs& e, u32 strip, u32 token, u32 col, u32 count, f32x16 v) {
  const f32x16 weights = load_part<f32x16>(plain(e.norm_outputs.norm) + col, count);
  uint16_t* to = (uint16_t*)plain(e.norm_outputs.x_bf16) + (u64)token * e.out_cols + col;
  store_part(to, bf16_lanes(v * weights), count);
  plain(e.norm_outputs.sum_squares)[(u64)token * e.all_strips + strip] = sum_of(first_lanes(v * v, count));
}

// keep_best_logit() stores the greatest logit of a strip and token, of the lowest row on ties.
MK_INLINE void keep_best_logit(const EpilogueArgs& e, u32 strip, u32 token, u32 count, f32x16 v) {
  f32 values[kVector];
  store(values, v);
  u32 best = 0;
  for (u32 row = 1; row < count; ++row)
    if (plain_logit(values[row]) > plain_logit(values[best])) best = row;
  const u64 at = (u64)token * e.all_strips + strip;
  plain(e.best_value)[at] = values[best];
  plain(e.best_index)[at] = strip * kStripRows + best;
}

// kRowsAhead is how many tokens ahead finish() prefetches residuals. Rows of tokens lie too far apart for the
// processor's own prefetches.
constexpr u32 kRowsAhead = 8;

// finish() writes what a product makes of the sums of a strip's rows for a token. `scale` is what the sums
// still lack.
MK_INLINE void finish(const ProductArgs& a, u32 strip, u32 token, f32x16 sums, f32 scale) {
  const EpilogueArgs& e = *plain(a.epilogue);
  const u64 out_row = (u64)(a.first_out + token) * e.out_cols;
  if (e.gate != Activation::kNone) {
    const u32 col = strip * (kStripRows / 2);
    if (col >= e.out_cols) return;
    const u32 pairs = min(kStripRows / 2, e.out_cols - col);
    f32x16 v = sums * all_lanes(scale);
    if (a.biased_experts) {
      f32x16 bias = load_part<f32x16>(plain(e.bias) + a.first_bias + col, pairs);
      bias.hi = load_part<f32x16>(plain(e.up_bias) + a.first_bias + col, pairs).lo;
      v = fma(sums, all_lanes(scale), bias);
    }
    const f32x8 gate = activated_lanes<f32x8>(e.gate, v.lo, a.gates), up = v.hi;
    const bool oai = (a.gates >> (u32)Activation::kSwigluOai & 1) != 0 && e.gate == Activation::kSwigluOai;
    return store_values(e, out_row + col, gate * (oai ? up_oai(up) : up), pairs);
  }
  const u32 col = strip * kStripRows;
  if (col >= e.rows) return;
  const u32 count = min(kStripRows, e.rows - col);
  if (e.residual) __builtin_prefetch(plain(e.residual) + (u64)(token + kRowsAhead) * e.out_cols + col);
  f32x16 more = all_lanes(0);
  if (e.bias) more = load_part<f32x16>(plain(e.bias) + a.first_bias + col, count);
  if (e.residual) more += load_part<f32x16>(plain(e.residual) + (u64)token * e.out_cols + col, count);
  const f32x16 v = fma(sums, all_lanes(scale), more);
  store_values(e, out_row + col, v, count);
  if (e.norm_outputs.norm) keep_norm_outputs(e, strip, token, col, count, v);
  if (e.best_value) keep_best_logit(e, strip, token, count, v);
}

}  // namespace mk
