// Quantize grids round rows to 8-bit floats, for products that multiply codes (product_wgmma.h).
#include "codegen/device/product_fp8.h"

namespace mk {

namespace {

constexpr u32 kPieceCols = 16;  // columns that a thread rounds at once

// Piece is the bits of a thread's columns.
struct Piece {
  u32x4 low, high;
  MK_INLINE Piece(AS1 const u32x4* row, u32 i) : low(row[2 * i]), high(row[2 * i + 1]) {}
  MK_INLINE u32 max() const { return mk_max_abs_bf16x2(max_abs(low), max_abs(high)); }
  MK_INLINE u32x4 codes(u32 scale) const {
    return {scaled_codes(low[0], low[1], scale), scaled_codes(low[2], low[3], scale),
            scaled_codes(high[0], high[1], scale), scaled_codes(high[2], high[3], scale)};
  }
};

// OfRow is what a row's scale follows from: its greatest magnitude, and its sum of squares.
struct OfRow {
  f32 max = 0, sum = 0;
};

// of_worker() gives all threads the greatest magnitude and the sum. The halves of `max` are magnitudes of a
// thread, apart from their signs.
MK_INLINE OfRow of_worker(const Worker& w, u32 max, f32 sum) {
  AS3 f32x2* of_warps = (AS3 f32x2*)w.scratch();
  const f32 low = __builtin_fabsf(Bf16::low(max)), high = __builtin_fabsf(Bf16::high(max));
  const f32x2 of_warp = {mk_warp_max(low > high ? low : high), mk_warp_sum(sum)};
  if (w.lane() == 0) of_warps[w.warp()] = of_warp;
  consumer_barrier();
  OfRow all;
  for (u32 i = 0; i < kConsumerWarps; ++i) {
    const f32x2 of = of_warps[i];
    all.max = of[0] > all.max ? of[0] : all.max;
    all.sum += of[1];
  }
  return all;
}

}  // namespace

// A NaN of the row becomes a code that is NaN, whatever the scale.
MK_BODY void mkb_quantize(Worker* w, const QuantizeArgs* a, u32 row) {
  AS1 const u32x4* x = (AS1 const u32x4*)(a->x + (u64)row * a->cols * Bf16::bytes);
  AS1 u32x4* codes = (AS1 u32x4*)(a->codes + (u64)row * a->cols);
  const u32 pieces = a->cols / kPieceCols;
  u32 max = 0;
  for (u32 i = w->thread; i < pieces; i += kConsumerThreads) max = mk_max_abs_bf16x2(max, Piece(x, i).max());
  f32 sum = 0;
  for (u32 i = w->thread; i < a->sumsq_partials; i += kConsumerThreads)
    sum += a->sum_squares[row * a->sumsq_partials + i];
  const OfRow all = of_worker(*w, max, sum);
  const u32 exponent = exponent_of(__builtin_bit_cast(u32, all.max) >> 23 & 0xffu);
  const u32 scale = scale_halves(exponent);
  for (u32 i = w->thread; i < pieces; i += kConsumerThreads) codes[i] = Piece(x, i).codes(scale);
  if (w->thread != 0) return;
  const f32 norm = a->sumsq_partials != 0 ? mk_rsqrt(all.sum / (f32)a->cols + a->eps) : 1;
  a->code_scale[row] = norm * inverse_scale(exponent);
}

}  // namespace mk
