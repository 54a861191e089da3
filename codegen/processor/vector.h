// A vector has 16 lanes, one for each row of a strip. LLVM makes one AVX-512 register of them, or two AVX2
// registers.
//
// Code of the processor uses plain pointers. plain() makes one from a pointer of global memory (AS1) or of a
// worker's memory (AS3), which are all memory of the process.
#pragma once

#include <immintrin.h>

#include "codegen/device/bodies.h"

namespace mk {

constexpr u32 kVector = 16;

typedef f32 f32x16 __attribute__((ext_vector_type(16)));
typedef f32 f32x8 __attribute__((ext_vector_type(8)));
typedef u32 u32x16 __attribute__((ext_vector_type(16)));
typedef u32 u32x8 __attribute__((ext_vector_type(8)));
typedef int32_t i32x16 __attribute__((ext_vector_type(16)));
typedef int32_t i32x8 __attribute__((ext_vector_type(8)));
typedef uint16_t u16x16 __attribute__((ext_vector_type(16)));
typedef uint16_t u16x8 __attribute__((ext_vector_type(8)));
typedef uint8_t u8x16 __attribute__((ext_vector_type(16)));
typedef _Float16 f16x16 __attribute__((ext_vector_type(16)));

constexpr u32x16 kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

template <class T>
MK_INLINE T* plain(AS1 T* p) {
  return (T*)p;
}
template <class T>
MK_INLINE T* plain(AS3 T* p) {
  return (T*)p;
}

// will_read() and will_write() tell the thread sanitizer of vectors in memory, which it does not see itself.
#if __has_feature(thread_sanitizer)
extern "C" void __tsan_read_range(void* p, unsigned long bytes) noexcept;
extern "C" void __tsan_write_range(void* p, unsigned long bytes) noexcept;
MK_INLINE void will_read(const void* p, u32 bytes) {
  __tsan_read_range((void*)p, bytes);
}
MK_INLINE void will_write(void* p, u32 bytes) {
  __tsan_write_range(p, bytes);
}
#else
MK_INLINE void will_read(const void*, u32) {}
MK_INLINE void will_write(void*, u32) {}
#endif

// load() and store() need no alignment.
template <class V>
MK_INLINE V load(const void* p) {
  V v;
  will_read(p, sizeof v);
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
MK_INLINE void store(void* p, V v) {
  will_write(p, sizeof v);
  __builtin_memcpy(p, &v, sizeof v);
}

#ifdef __AVX512F__
// in_register() has the compiler load v here, once. It otherwise loads values of many steps ahead, and keeps
// sums in memory to make room for them. still_used() keeps it from adding a sum to the register of v.
template <class V>
MK_INLINE void in_register(V& v) {
  __m512i bits = (__m512i)v;
  __asm__("" : "+v"(bits));
  v = (V)bits;
}
template <class V>
MK_INLINE void still_used(V v) {
  __asm__ volatile("" ::"v"((__m512i)v));
}
#endif

// prefetch_line() prefetches a line to L2. More lines can be on their way to L2 than to L1.
MK_INLINE void prefetch_line(const char* line) {
  __builtin_prefetch(line, 0, 2);
}

// load_part() reads the first `count` of 16 values of type T, at most 16. The others are 0. Gates have half
// of a vector.
template <class V, class T>
MK_INLINE V load_part(const T* p, u32 count) {
  if (count >= kVector) return load<V>(p);
  if (count == kVector / 2) {
    V v = {};
    v.lo = load<__typeof__(v.lo)>(p);
    return v;
  }
  T values[kVector] = {};
  for (u32 i = 0; i < count; ++i) values[i] = p[i];
  return load<V>(values);
}

// store_part() stores the first `count` values of a vector, or all where it has fewer.
template <class T, class V>
MK_INLINE void store_part(T* to, V v, u32 count) {
  constexpr u32 lanes = sizeof(V) / sizeof(T);
  if (count >= lanes) return store(to, v);
  if (count == lanes / 2) return store(to, v.lo);
  T values[lanes];
  store(values, v);
  for (u32 i = 0; i < count; ++i) to[i] = values[i];
}

MK_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return __builtin_elementwise_fma(a, b, c);
}
MK_INLINE f32x16 all_lanes(f32 v) {
  return f32x16(v);
}
// first_lanes() keeps the first `count` lanes. The others become 0.
MK_INLINE f32x16 first_lanes(f32x16 v, u32 count) {
  return kLane < u32x16(count) ? v : all_lanes(0);
}
// sum_of() adds the lanes by halves: lanes i and i + 8, then i and i + 4, and so on.
MK_INLINE f32 sum_of(f32x16 v) {
  const auto eight = v.lo + v.hi;
  const auto four = eight.lo + eight.hi;
  const auto two = four.lo + four.hi;
  return two.x + two.y;
}

// greater() is `other` where v is NaN. greatest_of() is the greatest lane, where none is NaN.
template <class V>
MK_INLINE V greater(V v, V other) {
  return v > other ? v : other;
}
MK_INLINE f32 greatest_of(f32x16 v) {
  const auto eight = greater(v.lo, v.hi);
  const auto four = greater(eight.lo, eight.hi);
  const auto two = greater(four.lo, four.hi);
  return greater(two.x, two.y);
}

// exp2_of() is 2^x with a relative error of 2^-22, by the polynomial of mass_of() (runtime/abi/sampling.h).
// Values below -126.5 give 0. V is f32 or a vector of f32, and U has its bits.
template <class V, class U>
MK_INLINE V exp2_of(V x) {
  constexpr f32 to_integer = 0x1.8p23f;
  const V bounded = __builtin_elementwise_min(__builtin_elementwise_max(x, V(-127.0f)), V(128.0f));
  const V shifted = bounded + V(to_integer), whole = shifted - V(to_integer), rest = bounded - whole;
  constexpr f32 factor[] = {0x1.5f3e52p-10f, 0x1.3b2d4cp-7f, 0x1.c6aee8p-5f,
                            0x1.ebfbdcp-3f,  0x1.62e430p-1f, 1.0f};
  V power = V(0x1.41fbbcp-13f);
  MK_UNROLL
  for (u32 i = 0; i < 6; ++i) power = __builtin_elementwise_fma(power, rest, V(factor[i]));
  const U exponent = (__builtin_bit_cast(U, shifted) - U(0x4b400000u) + U(127u)) << U(23u);
  const V result = power * __builtin_bit_cast(V, exponent);
  return x == x ? result : x;
}

// bf16_bits() rounds to nearest even. A NaN stays one. U is u32 or a vector of it, and V has its bits.
template <class U, class V>
MK_INLINE U bf16_bits(V v) {
  const U bits = __builtin_bit_cast(U, v);
  const U rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  return v == v ? rounded : (bits >> 16 | 0x40u);
}

MK_INLINE u16x16 bf16_lanes(f32x16 v) {
  return __builtin_convertvector(bf16_bits<u32x16>(v), u16x16);
}
MK_INLINE u16x8 bf16_lanes(f32x8 v) {
  return __builtin_convertvector(bf16_bits<u32x8>(v), u16x8);
}
#ifdef __AVX512BF16__
// add_dots() adds to each lane of `sum` the products of a pair of bf16. dot_lanes() rounds what it
// multiplies. Both take numbers below the least normal one for 0.
MK_INLINE f32x16 add_dots(f32x16 sum, u32x16 a, u32x16 b) {
  return (f32x16)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
MK_INLINE u16x16 dot_lanes(f32x16 v) {
  return (u16x16)_mm512_cvtneps_pbh((__m512)v);
}
#endif

// Values of 16 columns or positions as a cache or a row of activations stores them, as f32.
template <class C>
struct Stored;
template <>
struct Stored<F32> {
  typedef f32 Element;
  MK_INLINE static f32x16 widen(f32x16 v) { return v; }
  typedef f32x16 Vector;
};
template <>
struct Stored<Bf16> {
  typedef uint16_t Element;
  typedef u16x16 Vector;
  MK_INLINE static f32x16 widen(u16x16 v) {
    return __builtin_bit_cast(f32x16, __builtin_convertvector(v, u32x16) << 16);
  }
};
template <>
struct Stored<F16> {
  typedef uint16_t Element;
  typedef u16x16 Vector;
  MK_INLINE static f32x16 widen(u16x16 v) {
    return __builtin_convertvector(__builtin_bit_cast(f16x16, v), f32x16);
  }
};
// f16 holds every number of E4M3, with 2^-8 of its value where the exponent's bits are kept. NaN is restored.
MK_INLINE f32x16 widen_e4m3(u16x16 codes) {
  const u16x16 half = (codes & 0x80) << 8 | (codes & 0x7f) << 7;
  const f32x16 value = __builtin_convertvector(__builtin_bit_cast(f16x16, half), f32x16) * 256.0f;
  const u32x16 nan = (u32x16)((__builtin_convertvector(codes, u32x16) & 0x7f) == 0x7f);
  return __builtin_bit_cast(f32x16, __builtin_bit_cast(u32x16, value) | (nan & 0x7fc00000u));
}
template <>
struct Stored<E4m3> {
  typedef uint8_t Element;
  typedef u8x16 Vector;
  MK_INLINE static f32x16 widen(u8x16 codes) { return widen_e4m3(__builtin_convertvector(codes, u16x16)); }
};

// load16() reads `count` of 16 stored values, at most 16. The others are 0.
template <class C>
MK_INLINE f32x16 load16(const char* p, u32 count = kVector) {
  typedef Stored<C> S;
  return S::widen(load_part<typename S::Vector>((const typename S::Element*)p, count));
}

}  // namespace mk
