// Code of the processor uses these primitives of codegen/device/mk.h: arithmetic, and atomic access to
// counters in memory.
#pragma once

#include "codegen/device/e4m3.h"
#include "codegen/processor/vector.h"

#define MK_PRIMITIVE extern "C" __attribute__((always_inline)) inline

namespace mk {

MK_PRIMITIVE u32 mk_load_acquire(AS1 const u32* p) noexcept {
  return __atomic_load_n(plain(p), __ATOMIC_ACQUIRE);
}
MK_PRIMITIVE u32 mk_load_relaxed(AS1 const u32* p) noexcept {
  return __atomic_load_n(plain(p), __ATOMIC_RELAXED);
}
MK_PRIMITIVE u32 mk_add_acq_rel(AS1 u32* p, u32 n) noexcept {
  return __atomic_fetch_add(plain(p), n, __ATOMIC_ACQ_REL);
}
MK_PRIMITIVE u32 mk_add_relaxed(AS1 u32* p, u32 n) noexcept {
  return __atomic_fetch_add(plain(p), n, __ATOMIC_RELAXED);
}
MK_PRIMITIVE u32 mk_cas_relaxed(AS1 u32* p, u32 expected, u32 desired) noexcept {
  __atomic_compare_exchange_n(plain(p), &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
MK_PRIMITIVE void mk_store_release(AS1 u32* p, u32 v) noexcept {
  __atomic_store_n(plain(p), v, __ATOMIC_RELEASE);
}

MK_PRIMITIVE f32 mk_rsqrt(f32 x) noexcept {
  return 1.0f / __builtin_sqrtf(x);
}
MK_PRIMITIVE f32 mk_rcp(f32 x) noexcept {
  return 1.0f / x;
}
MK_PRIMITIVE f32 mk_exp2(f32 x) noexcept {
  return exp2_of<f32, u32>(x);
}

MK_INLINE u32 f16_bits(f32 v) {
  return __builtin_bit_cast(uint16_t, (_Float16)v);
}

MK_PRIMITIVE u32 mk_pack_bf16(f32 lo, f32 hi) noexcept {
  return bf16_bits<u32>(hi) << 16 | bf16_bits<u32>(lo);
}
MK_PRIMITIVE u32 mk_pack_f16(f32 lo, f32 hi) noexcept {
  return f16_bits(hi) << 16 | f16_bits(lo);
}
MK_PRIMITIVE f32 mk_f16_to_f32(u32 half_bits) noexcept {
  return (f32) __builtin_bit_cast(_Float16, (uint16_t)half_bits);
}
MK_PRIMITIVE u32 mk_pack_e4m3(f32 lo, f32 hi) noexcept {
  return soft_pack_e4m3(lo, hi);
}
MK_PRIMITIVE u32 mk_unpack_e4m3(u32 codes) noexcept {
  return soft_unpack_e4m3(codes);
}

}  // namespace mk
