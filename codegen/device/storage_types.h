// Weights and caches are stored as f32, bf16, f16 or E4M3.
#pragma once

#include "codegen/device/worker.h"

namespace mk {

// A storage type rounds, loads and stores values. A `word` is two values, the first in the low half. load8()
// reads 8 values of a stage as matrix instructions of the type Half take them.
struct F32 {
  static constexpr u32 bytes = 4;
  MK_INLINE static f32 round(f32 v) { return v; }
  MK_INLINE static f32 load(AS1 const char* p) { return *(AS1 const f32*)p; }
  MK_INLINE static void store(AS1 char* p, f32 v) { *(AS1 f32*)p = v; }
  MK_INLINE static void store(AS3 char* p, f32 v) { *(AS3 f32*)p = v; }
};

// TwoBytes has what Bf16 and F16 (T) share.
template <class T>
struct TwoBytes {
  using Half = T;
  static constexpr u32 bytes = 2;
  MK_INLINE static f32 round(f32 v) { return T::low(T::pack(v, 0)); }
  MK_INLINE static u32x4 load8(AS3 const char* p) { return *(AS3 const u32x4*)p; }
  MK_INLINE static void store(AS1 char* p, f32 v) { *(AS1 uint16_t*)p = (uint16_t)T::pack(v, 0); }
  MK_INLINE static void store(AS3 char* p, f32 v) { *(AS3 uint16_t*)p = (uint16_t)T::pack(v, 0); }
};
struct Bf16 : TwoBytes<Bf16> {
  MK_INLINE static f32 low(u32 word) { return as_f32(word << 16); }
  MK_INLINE static f32 high(u32 word) { return as_f32(word & 0xffff0000u); }
  MK_INLINE static u32 pack(f32 lo, f32 hi) { return mk_pack_bf16(lo, hi); }
  MK_INLINE static void mma(f32* d, u32x4 a, u32 b0, u32 b1) {
    mk_mma_bf16(d, a[0], a[1], a[2], a[3], b0, b1);
  }
  MK_INLINE static void wgmma(f32* d, const u32* a, AS3 const void* b) { mk_wgmma_bf16(d, a, b); }
  MK_INLINE static f32 load(AS1 const char* p) { return low(*(AS1 const uint16_t*)p); }
};
struct F16 : TwoBytes<F16> {
  MK_INLINE static f32 low(u32 word) { return mk_f16_to_f32(word & 0xffffu); }
  MK_INLINE static f32 high(u32 word) { return mk_f16_to_f32(word >> 16); }
  MK_INLINE static u32 pack(f32 lo, f32 hi) { return mk_pack_f16(lo, hi); }
  MK_INLINE static void mma(f32* d, u32x4 a, u32 b0, u32 b1) {
    mk_mma_f16(d, a[0], a[1], a[2], a[3], b0, b1);
  }
  MK_INLINE static void wgmma(f32* d, const u32* a, AS3 const void* b) { mk_wgmma_f16(d, a, b); }
  MK_INLINE static f32 load(AS1 const char* p) { return mk_f16_to_f32(*(AS1 const uint16_t*)p); }
};

// E4m3 values are stored divided by a scale. Whoever loads a value multiplies it by the scale.
struct E4m3 {
  using Half = F16;
  static constexpr u32 bytes = 1;
  MK_INLINE static void wgmma(f32* d, const u32* a, AS3 const void* b) { mk_wgmma_e4m3(d, a, b); }
  MK_INLINE static f32 round(f32 v) { return F16::low(mk_unpack_e4m3(mk_pack_e4m3(v, 0))); }
  MK_INLINE static f32 load(AS1 const char* p) { return F16::low(mk_unpack_e4m3(*(AS1 const uint8_t*)p)); }
  MK_INLINE static u32x4 load8(AS3 const char* p) {
    const u32x2 codes = *(AS3 const u32x2*)p;
    return u32x4{mk_unpack_e4m3(codes[0]), mk_unpack_e4m3(codes[0] >> 16), mk_unpack_e4m3(codes[1]),
                 mk_unpack_e4m3(codes[1] >> 16)};
  }
  MK_INLINE static void store(AS1 char* p, f32 v) { *(AS1 uint8_t*)p = (uint8_t)mk_pack_e4m3(v, 0); }
  MK_INLINE static void store(AS3 char* p, f32 v) { *(AS3 uint8_t*)p = (uint8_t)mk_pack_e4m3(v, 0); }
};

}  // namespace mk
