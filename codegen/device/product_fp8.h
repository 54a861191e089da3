// Activations as 8-bit floats (E4M3), for Mma64 with weights of E4M3. mma.m16n8k32 then takes the codes of
// the weights as they are stored.
//
// A scale belongs to a token's columns in one tile slice, at most 64. It is a power of 2 that puts the
// greatest magnitude between 128 and 256. So scaling is exact, and only the codes are rounded. Sums of a tile
// slice are multiplied with the inverse scale when they are added to those of the K slice.
#pragma once

#include "codegen/device/product_sums.h"

namespace mk {

constexpr u32 kFp8Cols = 64;      // columns that share a scale
constexpr u32 kFp8Chunks = 8;     // chunks of 8 bf16 columns that share a scale
constexpr u32 kFp8PairCols = 32;  // columns of one instruction: a pair of k-steps

// exponent_of() is the biased exponent by which columns are scaled, for the bits of the greatest magnitude
// from its exponent on. Magnitudes below 2^-119 are scaled as 2^-119 is.
MK_INLINE u32 exponent_of(u32 bits) {
  constexpr u32 kMin = 8;
  return bits < kMin ? kMin : bits;
}
constexpr u32 kFp8Exponent = 127 + 7;  // what exponent_of() becomes
// scale_halves() is the scale as two bf16. inverse_scale() is its inverse. Infinity has an infinite inverse,
// so that sums are not finite either.
MK_INLINE u32 scale_halves(u32 exponent) {
  return (127 + kFp8Exponent - exponent) * 0x00800080u;
}
MK_INLINE f32 inverse_scale(u32 exponent) {
  return as_f32((exponent == 255 ? 255 : exponent + 127 - kFp8Exponent) << 23);
}

// scaled_codes() gives the codes of 4 bf16, times the scale.
MK_INLINE u32 scaled_codes(u32 low, u32 high, u32 scale) {
  constexpr u32 kMinusZero = 0x80008000;
  const u32 a = mk_fma_bf16x2(low, scale, kMinusZero), b = mk_fma_bf16x2(high, scale, kMinusZero);
  return mk_codes_e4m3(as_f32(a << 16), as_f32(a & 0xffff0000u), as_f32(b << 16), as_f32(b & 0xffff0000u));
}

MK_INLINE u32 max_abs(u32x4 bits) {
  return mk_max_abs_bf16x2(mk_max_abs_bf16x2(bits[0], bits[1]), mk_max_abs_bf16x2(bits[2], bits[3]));
}

// Fp8Activations is one of two buffers for activations in shared memory, which take turns. A token has a row
// of 64 codes. A pair of k-steps has 32 bytes of the row, 8 for each lane t of 4. These are columns 4t to
// 4t + 3 of the first k-step, then of the second. The two pairs of every second two tokens change places, so
// that operands have no bank conflicts. The tokens' inverse scales lie behind the rows.
struct Fp8Activations {
  AS3 char* base;
  MK_INLINE AS3 char* at(u32 token, u32 pair) const {
    return base + token * kFp8Cols + (pair ^ token / 2 % 2) * kFp8PairCols;
  }
  MK_INLINE AS3 f32* inverse(u32 token) const { return (AS3 f32*)(base + kMma64Tokens * kFp8Cols) + token; }

  // store() takes the thread's chunks, of two tokens. The 8 lanes with a token's chunks are neighbours. The
  // halves of a word have the greatest magnitudes of the two tokens.
  template <class Loaded>
  MK_INLINE void store(const Worker& w, const Loaded& x) const {
    static_assert(Loaded::count == 2);
    const u32 low = max_abs(x.bits[0]), high = max_abs(x.bits[1]);
    u32 max = mk_max_abs_bf16x2(mk_low_halves(low, high), mk_high_halves(low, high));
    MK_UNROLL
    for (u32 mask = 1; mask < kFp8Chunks; mask *= 2)
      max = mk_max_abs_bf16x2(max, __builtin_bit_cast(u32, mk_shuffle_xor(as_f32(max), mask)));
    store(w, x.bits[0], 0, exponent_of(max >> 7 & 0xffu));
    store(w, x.bits[1], Loaded::apart, exponent_of(max >> 23 & 0xffu));
  }
  // operand() is a lane's B operand of a pair of k-steps, for 16 tokens.
  template <class Sums>
  MK_INLINE typename Sums::Operand operand(u32 lane, u32 token, u32 pair) const {
    typename Sums::Operand o;
    MK_UNROLL
    for (u32 n = 0; n < 2; ++n)
      o.x[n] = *(AS3 const u32x2*)(at(token + n * kMma8Tokens + lane / 4, pair) + lane % 4 * 8);
    return o;
  }

 private:
  MK_INLINE void store(const Worker& w, u32x4 bits, u32 further, u32 exponent) const {
    const u32 token = w.thread / kFp8Chunks + further, chunk = w.thread % kFp8Chunks;
    AS3 char* to = at(token, chunk / 4) + chunk % 2 * 16 + chunk / 2 % 2 * 4;
    const u32 scale = scale_halves(exponent);
    *(AS3 u32*)to = scaled_codes(bits[0], bits[1], scale);
    *(AS3 u32*)(to + 8) = scaled_codes(bits[2], bits[3], scale);
    if (chunk == 0) *inverse(token) = inverse_scale(exponent);
  }
};

// Fp8Operands is what a lane multiplies all strips of a warp with in one tile slice.
template <class Sums>
struct Fp8Operands {
  typename Sums::Operand pair[kFp8Cols / kFp8PairCols];
  f32x2 inverse[2];
  MK_INLINE Fp8Operands(const Fp8Activations& x, u32 lane, u32 token) {
    MK_UNROLL
    for (u32 i = 0; i < kFp8Cols / kFp8PairCols; ++i) pair[i] = x.template operand<Sums>(lane, token, i);
    AS3 const f32x2* at = (AS3 const f32x2*)x.inverse(token) + lane % 4;
    inverse[0] = at[0], inverse[1] = at[kMma8Tokens / 2];
  }
};

// multiply_fp8() adds the products of one strip's tile slice to `sums`. `words` is where the tile slice
// begins. k-steps that are not there are multiplied as zeros.
template <class W, class Sums>
MK_INLINE void multiply_fp8(u32 lane, u32 steps, const Fp8Operands<Sums>& x, AS3 const u32x2* words,
                            Sums& sums) {
  using Shape = TileKSlices<W>;
  static_assert(Shape::full_cols == kFp8Cols);
  static_assert(!W::grouped || W::group_steps * Shape::step_cols == kFp8PairCols);
  const auto step_of = [&](u32 step) { return step < steps ? words[step * kWarpLanes + lane] : 0; };
  Sums part;
  part.clear();
  MK_UNROLL
  for (u32 pair = 0; pair < kFp8Cols / kFp8PairCols; ++pair) {
    const u32x2 first = step_of(2 * pair), second = step_of(2 * pair + 1);
    const u32x4 weights{first[0], first[1], second[0], second[1]};
    if constexpr (W::grouped) {
      if (2 * pair >= steps) continue;
      Sums of;
      of.clear();
      of.step_e4m3(weights, x.pair[pair]);
      part.add_scaled(of, Shape::group(lane, words + steps * kWarpLanes, pair).scales);
    } else {
      part.step_e4m3(weights, x.pair[pair]);
    }
  }
  MK_UNROLL
  for (u32 i = 0; i < 8; ++i) sums.sum[i] = __builtin_fmaf(part.sum[i], x.inverse[i / 4][i % 2], sums.sum[i]);
}

}  // namespace mk
