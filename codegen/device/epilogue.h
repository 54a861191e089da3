// The epilogue of a product turns its sums into results: scale, bias, residual, gate, norm outputs and the
// greatest logit.
#pragma once

#include "codegen/device/activation.h"
#include "codegen/device/product_sums.h"

namespace mk {

// may_be() tells whether a gate is another one. Gates that no product of the kernel has cost no code: `gates`
// is a constant.
MK_INLINE bool may_be(u32 gates, Activation gate, Activation other) {
  return (gates >> (u32)other & 1) != 0 && gate == other;
}
MK_INLINE f32 gated(u32 gates, Activation gate, f32 v) {
  MK_UNROLL
  for (u32 other = (u32)Activation::kSilu + 1; other <= (u32)kLastActivation; ++other)
    if (may_be(gates, gate, (Activation)other)) return activated((Activation)other, v);
  return silu(v);
}

// up_factor() is what an up row gives to a pair: the row, but for the gate that clamps it.
MK_INLINE f32 up_factor(u32 gates, Activation gate, f32 up) {
  return may_be(gates, gate, Activation::kSwigluOai) ? up_oai(up) : up;
}

// sums_of() addresses a split product's sums of one strip and K slice, from token `token` on.
MK_INLINE AS1 f32* sums_of(const ProductArgs& a, u32 strip, u32 k_slice, u32 token) {
  return a.epilogue->sums + ((strip * kKSlices + k_slice) * a.tokens + token) * kStripRows;
}

// EpilogueOperands are the values added to a row's sum, and the row's weight in the next norm.
struct EpilogueOperands {
  f32 bias = 0, up_bias = 0, residual = 0, norm = 0;
};

MK_INLINE bool is_gated(const ProductArgs& a) {
  return may_have(a, kGatePart) && a.epilogue->gate != Activation::kNone;
}
MK_INLINE bool keeps_best(const ProductArgs& a) {
  return may_have(a, kBestPart) && a.epilogue->best_value;
}
MK_INLINE bool has_norm_outputs(const ProductArgs& a) {
  return may_have(a, kNormOutputsPart) && a.epilogue->norm_outputs.norm;
}

// load_epilogue_operands() issues loads. `there` tells whether the token and row exist.
MK_INLINE EpilogueOperands load_epilogue_operands(const ProductArgs& a, u32 strip, u32 token, u32 row,
                                                  bool there) {
  EpilogueOperands b;
  AS3 const EpilogueArgs& e = *a.epilogue;
  if (a.biased_experts && is_gated(a)) {
    const u32 col = strip * (kStripRows / 2) + row;
    if (there && row < kStripRows / 2 && col < e.out_cols)
      b.bias = e.bias[a.first_bias + col], b.up_bias = e.up_bias[a.first_bias + col];
    return b;
  }
  const u32 col = strip * kStripRows + row;
  if (!there || col >= e.rows) return b;
  if (may_have(a, kBiasPart) && e.bias) b.bias = e.bias[a.first_bias + col];
  if (may_have(a, kResidualPart) && e.residual) b.residual = e.residual[token * e.out_cols + col];
  if (has_norm_outputs(a)) b.norm = e.norm_outputs.norm[col];
  return b;
}

// epilogue() writes row `row` of a strip for a token, from sum(row) times `scale`, and returns the value.
template <class Sum>
MK_INLINE f32 epilogue(const ProductArgs& a, u32 strip, u32 token, u32 row, f32 scale,
                       const EpilogueOperands& operands, const Sum& sum) {
  AS3 const EpilogueArgs& e = *a.epilogue;
  const u64 out_row = (u64)(a.first_out + token) * e.out_cols;
  if (is_gated(a)) {
    const u32 col = strip * (kStripRows / 2) + row;
    if (row >= kStripRows / 2 || col >= e.out_cols) return 0;
    const auto of = [&](u32 r, f32 bias) {
      return a.biased_experts ? __builtin_fmaf(sum(r), scale, bias) : sum(r) * scale;
    };
    store_out(e.out, out_row + col,
              gated(a.gates, e.gate, of(row, operands.bias)) *
                  up_factor(a.gates, e.gate, of(row + 8, operands.up_bias)),
              e.out_bf16);
    return 0;
  }
  const u32 col = strip * kStripRows + row;
  if (col >= e.rows) return 0;
  // An explicit fma gives the same bits in all variants. The assembler may fuse a separate multiply and add
  // in some variants and not in others.
  const f32 v = __builtin_fmaf(sum(row), scale, operands.bias + operands.residual);
  store_out(e.out, out_row + col, v, e.out_bf16);
  return v;
}

// store_norm_outputs() is called by whole warps. Each 16 lanes have the rows of one strip for one token.
// `there` is false in lanes without a row.
MK_INLINE void store_norm_outputs(const ProductArgs& a, u32 strip, u32 token, u32 row, bool there, f32 norm,
                                  f32 v) {
  AS3 const EpilogueArgs& e = *a.epilogue;
  if (!has_norm_outputs(a)) return;
  const u32 col = strip * kStripRows + row;
  if (there && col < e.rows)
    Bf16::store(e.norm_outputs.x_bf16 + (token * e.out_cols + col) * Bf16::bytes, v * norm);
  f32 sum = __builtin_fmaf(v, v, 0.0f);  // one explicit fma, as in epilogue()
  MK_UNROLL
  for (u32 mask = kStripRows / 2; mask > 0; mask /= 2) sum += mk_shuffle_xor(sum, mask);
  if (there && row == 0) e.norm_outputs.sum_squares[token * a.epilogue->all_strips + strip] = sum;
}

// keep_best() stores the greatest logit of a strip and token, of the lowest row on ties. `value(row)` is a
// row's logit.
template <class Value>
MK_INLINE void keep_best(const ProductArgs& a, u32 strip, u32 token, const Value& value) {
  const u32 rows = min(a.epilogue->rows - strip * kStripRows, kStripRows);
  u32 best = 0;
  for (u32 row = 1; row < rows; ++row)
    if (plain_logit(value(row)) > plain_logit(value(best))) best = row;
  const u32 at = token * a.epilogue->all_strips + strip;
  a.epilogue->best_value[at] = value(best);
  a.epilogue->best_index[at] = strip * kStripRows + best;
}

}  // namespace mk
