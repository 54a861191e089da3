// Numbers of a cache of keys and values become vectors of f32.
#pragma once

#include "codegen/processor/vector.h"

namespace mk {

// each_vector() calls use(first, count) for each 16 of n numbers. The last ones may be fewer.
template <class Use>
MK_INLINE void each_vector(u32 n, Use use) {
  for (u32 i = 0; i + kVector <= n; i += kVector) use(i, kVector);
  if (n % kVector != 0) use(n / kVector * kVector, n % kVector);
}

// Columns is 32 columns of a row: the lower and the upper 16, or the even and the odd ones. evens() makes the
// second form of the first, in_order() the first of the second.
struct Columns {
  f32x16 a, b;
  MK_INLINE Columns evens() const {
    return {__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
            __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)};
  }
  MK_INLINE Columns in_order() const {
    return {__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
            __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)};
  }
};

// Cached converts numbers of a cache. columns() loads 32 of them, kFactor times too small. They are in the
// form of evens() if kEvens. narrow() rounds to nearest even.
template <class C>
struct Cached {
  static constexpr bool kEvens = false;
  static constexpr f32 kFactor = 1;
  MK_INLINE static Columns columns(const char* p) {
    return {load16<C>(p), load16<C>(p + kVector * C::bytes)};
  }
  MK_INLINE static auto narrow(f32x16 v) {
    if constexpr (__is_same(C, F16))
      return __builtin_bit_cast(u16x16, __builtin_convertvector(v, f16x16));
    else
      return v;
  }
};
template <>
struct Cached<Bf16> {
  static constexpr bool kEvens = true;
  static constexpr f32 kFactor = 1;
  MK_INLINE static Columns columns(const char* p) {
    const u32x16 words = load<u32x16>(p);
    return {__builtin_bit_cast(f32x16, words << 16), __builtin_bit_cast(f32x16, words & 0xffff0000u)};
  }
  MK_INLINE static u16x16 narrow(f32x16 v) { return bf16_lanes(v); }
};
// The bits of an E4m3 number are those of an f16 with 2^-8 of its value. A carry into the exponent's upper
// bit makes a NaN of a NaN.
template <>
struct Cached<E4m3> {
  static constexpr bool kEvens = true;
  static constexpr f32 kFactor = 256;
  MK_INLINE static f32x16 halves(u16x16 sign, u16x16 upper) {
    const u16x16 half = sign | (upper | ((upper + 0x100) & 0x8000)) >> 1;
    return __builtin_convertvector(__builtin_bit_cast(f16x16, half), f32x16);
  }
  MK_INLINE static Columns columns(const char* p) {
    const u16x16 codes = load<u16x16>(p), even = codes << 8;
    return {halves(even & 0x8000, even & 0x7f00), halves(codes & 0x8000, codes & 0x7f00)};
  }
  MK_INLINE static u8x16 narrow(f32x16 v) {
    f32 values[kVector];
    uint8_t codes[kVector];
    store(values, v);
    MK_ROLLED
    for (u32 i = 0; i < kVector; ++i) codes[i] = (uint8_t)mk_pack_e4m3(values[i], 0);
    return load<u8x16>(codes);
  }
};

// load_last() loads `count` columns behind the last whole 32 of a row, in order, kFactor times too small.
template <class C>
MK_INLINE f32x16 load_last(const char* p, u32 count) {
  return load16<C>(p, count) * (1 / Cached<C>::kFactor);
}

// store16() stores `count` numbers. If `finite` is given, a number that the cache cannot hold as a finite one
// becomes 0, and *finite becomes false.
template <class C>
MK_INLINE void store16(char* to, f32x16 v, u32 count, bool* finite) {
  auto bits = Cached<C>::narrow(v);
  if (finite) {
    const f32x16 zero = Stored<C>::widen(bits) * 0;
    if (!__builtin_reduce_and(zero == 0)) {
      *finite = false;
      bits = Cached<C>::narrow(zero == 0 ? v : f32x16(0));
    }
  }
  if (count >= kVector) return store(to, bits);
  char values[sizeof bits];
  store(values, bits);
  for (u32 i = 0; i < count * C::bytes; ++i) to[i] = values[i];
}

}  // namespace mk
