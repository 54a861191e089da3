// 8-bit floats are converted by integer instructions, with the bits of sm_89's conversions. The format is
// E4M3 of the OCP 8-bit floating point specification. E4M3 has a sign, 4 bits of exponent with a bias of 7,
// and 3 of mantissa. E4M3 has no infinity, and NaN where all 7 bits are set.
#pragma once

#include "codegen/device/worker.h"

namespace mk {

// e4m3_of() rounds to nearest even. Values beyond 448 become 448 of their sign, and NaN becomes 0x7f.
MK_INLINE u32 e4m3_of(f32 x) {
  const u32 bits = __builtin_bit_cast(u32, x), magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;
  const u32 sign = bits >> 24 & 0x80u;
  if (magnitude < 0x3c800000u)  // below 2^-6, a subnormal: the addition of 2^14 rounds at 2^-9
    return sign | (__builtin_bit_cast(u32, as_f32(magnitude) + 0x1p14f) - 0x46800000u);
  const u32 rounded = (magnitude - (120u << 23) + 0x7ffffu + (magnitude >> 20 & 1)) >> 20;
  return sign | (magnitude >= 0x43e00000u ? 0x7e : rounded);
}

// f16_of_e4m3() gives the f16 bits of the number, which f16 holds exactly. A product in f32 rebases the
// exponent.
MK_INLINE u32 f16_of_e4m3(u32 code) {
  if ((code & 0x7fu) == 0x7f) return 0x7fff;
  const f32 value = as_f32((code & 0x7fu) << 20) * 0x1p120f;
  return (code & 0x80u) << 8 | (mk_pack_f16(value, 0) & 0xffffu);
}

MK_INLINE u32 soft_pack_e4m3(f32 lo, f32 hi) {
  return e4m3_of(hi) << 8 | e4m3_of(lo);
}
MK_INLINE u32 soft_unpack_e4m3(u32 codes) {
  return f16_of_e4m3(codes >> 8) << 16 | f16_of_e4m3(codes);
}

}  // namespace mk
