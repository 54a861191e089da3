// The processor multiplies weights of each format in its own way.
#pragma once

#include <immintrin.h>

#include "codegen/processor/layout.h"
#include "codegen/processor/vector.h"

namespace mk {

// StripGroup is what the rows of a strip have for a group of columns: scales, and zero points.
struct StripGroup {
  f32x16 scales;
  u32x16 zeros;
};
struct NoGroup {};

// Steps<Type> is how weights of a format are multiplied, one step of `cols` columns at a time, in `parts`. A
// part takes one X of a row. load() gives a part of a step's weights, and step() adds their products with X.
// put() stores 16 columns of a row as X. group() reads what follows the columns of a group.
// Formats of integers and of E2M1 differ by their rows alone.
template <WeightType Type, CodeType Code, u32 Bits>
struct CodeSteps;
template <WeightType Type>
struct Steps : CodeSteps<Type, weight_format(Type).code, weight_format(Type).bits> {};

// F32Steps multiply by multiply-adds of f32.
struct F32Steps {
  typedef f32 X;
  typedef f32x16 Weights;
  MK_INLINE static f32x16 step(f32x16 sum, Weights w, X x) { return fma(w, all_lanes(x), sum); }
  MK_INLINE static void put(X* to, f32x16 values) { store(to, values); }
};

// ColumnSteps take one column, whose 16 rows lie together.
template <class C>
struct ColumnSteps : F32Steps {
  typedef NoGroup Group;
  static constexpr u32 cols = 1, parts = 1, bytes = kStripRows * C::bytes;
  MK_INLINE static Weights load(const char* p, u32, NoGroup) { return load16<C>(p); }
};
template <>
struct Steps<WeightType::kF32> : ColumnSteps<F32> {};
template <>
struct Steps<WeightType::kF16> : ColumnSteps<F16> {};

MK_INLINE f32x16 of_e8m0(u8x16 codes) {
  const u32x16 bits = __builtin_convertvector(codes, u32x16);
  return __builtin_bit_cast(f32x16, bits == 0 ? u32x16(0x00400000u) : bits << 23);
}

// scales_of() reads the scales of a group, one for each row of the strip.
template <WeightType Type>
MK_INLINE f32x16 scales_of(const char* p) {
  constexpr WeightFormat row = weight_format(Type);
  if constexpr (row.group_scale == ScaleType::kE8m0) return of_e8m0(mk::load<u8x16>(p));
  if constexpr (row.group_scale == ScaleType::kE4m3) return load16<E4m3>(p);
  if constexpr (row.group_scale == ScaleType::kF16) return load16<F16>(p);
  static_assert(row.group_scale != ScaleType::kF32 || row.group_rows == 4);
  const f32x4 v = mk::load<f32x4>(p);
  return __builtin_shufflevector(v, v, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
}

// zeros_of() reads the zero points of a group. Formats of 4 bits without zero points have codes around 8.
template <WeightType Type>
MK_INLINE u32x16 zeros_of(const char* p) {
  constexpr WeightFormat row = weight_format(Type);
  if constexpr (!row.zeros) return u32x16(8);
  return __builtin_convertvector(mk::load<u8x16>(p + row.zeros_at()), u32x16);
}

// WordSteps take the columns whose codes a row has in a word.
template <u32 Bits>
struct WordSteps {
  static constexpr u32 cols = 32 / Bits, bytes = kStripRows * sizeof(u32);
};

// bf16_of() is the bf16 of a number that bf16 holds exactly.
MK_INLINE constexpr uint16_t bf16_of(f32 v) {
  return (uint16_t)(__builtin_bit_cast(u32, v) >> 16);
}

// Codes of E2M1 without a sign stand for these numbers.
constexpr f32 kE2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

#ifdef __AVX512BF16__
// Bf16Steps multiply pairs of bf16.
struct Bf16Steps {
  typedef u32 X;
  typedef u32x16 Weights;
  MK_INLINE static f32x16 step(f32x16 sum, Weights w, X x) {
    return (f32x16)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)u32x16(x));
  }
  MK_INLINE static void put(X* to, f32x16 values) {
    store(to, __builtin_convertvector(bf16_bits<u32x16>(values), u16x16));
  }
};
template <>
struct Steps<WeightType::kBf16> : Bf16Steps, WordSteps<16> {
  typedef NoGroup Group;
  static constexpr u32 parts = 1;
  MK_INLINE static Weights load(const char* p, u32, NoGroup) { return mk::load<u32x16>(p); }
};

// Numbers is a table of 32 bf16.
struct Numbers {
  uint16_t of[32];
  MK_INLINE u32x16 look_up(u32x16 pairs) const {
    return (u32x16)_mm512_permutexvar_epi16((__m512i)pairs, (__m512i)mk::load<u32x16>(of));
  }
};

template <WeightType Type>
struct CodeSteps<Type, CodeType::kInteger, 4> : Bf16Steps, WordSteps<4> {
  typedef StripGroup Group;
  static constexpr u32 parts = cols / 2;
  // group() chooses the 16 entries of the table that belong to a row's zero point.
  MK_INLINE static Group group(const char* p) {
    return {scales_of<Type>(p), (u32x16(16) - zeros_of<Type>(p)) * 0x10001u};
  }
  MK_INLINE static Weights load(const char* p, u32 part, const Group& group) {
    return kFromMinus16.look_up((mk::load<u32x16>(p) >> code_shift(2 * part) & 0x000f000fu) + group.zeros);
  }

 private:
  static constexpr Numbers kFromMinus16 = [] {
    Numbers n{};
    for (int32_t i = 0; i < 32; ++i) n.of[i] = bf16_of((f32)(i - 16));
    return n;
  }();
};

template <WeightType Type>
struct CodeSteps<Type, CodeType::kE2m1, 4> : Bf16Steps, WordSteps<4> {
  typedef StripGroup Group;
  static constexpr u32 parts = cols / 2;
  MK_INLINE static Group group(const char* p) { return {scales_of<Type>(p), {}}; }
  MK_INLINE static Weights load(const char* p, u32 part, const Group&) {
    return kNumbers.look_up(mk::load<u32x16>(p) >> code_shift(2 * part) & 0x000f000fu);
  }

 private:
  static constexpr Numbers kNumbers = [] {
    Numbers n{};
    for (u32 i = 0; i < 16; ++i) n.of[i] = bf16_of(i < 8 ? kE2m1[i] : -kE2m1[i - 8]);
    return n;
  }();
};

// pairs_of() gives the pairs of 2-byte numbers of a part, from the lower and upper bytes of four columns.
MK_INLINE u32x16 pairs_of(__m512i lower, __m512i upper, u32 part) {
  return (u32x16)(part == 0 ? _mm512_unpacklo_epi8(lower, upper) : _mm512_unpackhi_epi8(lower, upper));
}

template <WeightType Type>
struct CodeSteps<Type, CodeType::kInteger, 8> : Bf16Steps, WordSteps<8> {
  typedef StripGroup Group;
  static constexpr u32 parts = cols / 2;
  MK_INLINE static Group group(const char* p) { return {scales_of<Type>(p), zeros_of<Type>(p)}; }
  MK_INLINE static Weights load(const char* p, u32 part, const Group& group) {
    const u32x16 codes = pairs_of((__m512i)mk::load<u32x16>(p), _mm512_setzero_si512(), part);
    const f32x16 low = number(codes & 0xffffu, group), high = number(codes >> 16, group);
    return __builtin_bit_cast(u32x16, low) >> 16 | __builtin_bit_cast(u32x16, high);
  }

 private:
  // bf16 holds the difference, so the lower half of its f32 is 0.
  MK_INLINE static f32x16 number(u32x16 codes, const Group& group) {
    return __builtin_convertvector((i32x16)(codes - group.zeros), f32x16);
  }
};

// E4m3Bytes is a table of the lower or upper bytes of the bf16 of codes without a sign.
struct E4m3Bytes {
  uint8_t of[128] = {};
  constexpr explicit E4m3Bytes(u32 shift) {
    for (u32 code = 0; code < 128; ++code) {
      f32 power = 0x1p-9f;  // of the lowest bit of the mantissa
      for (u32 exponent = 1; exponent < code >> 3; ++exponent) power *= 2;
      const f32 number = (f32)((code >> 3 ? 8 : 0) + code % 8) * power;
      of[code] = (uint8_t)((code == 127 ? 0x7fc0 : bf16_of(number)) >> shift);
    }
  }
  MK_INLINE __m512i look_up(__m512i codes) const {
    return _mm512_permutex2var_epi8((__m512i)mk::load<u32x16>(of), codes,
                                    (__m512i)mk::load<u32x16>(of + sizeof of / 2));
  }
};

struct E4m3Steps : Bf16Steps, WordSteps<8> {
  static constexpr u32 parts = cols / 2;
  MK_INLINE static u32x16 numbers(const char* p, u32 part) {
    const __m512i codes = (__m512i)mk::load<u32x16>(p), sign = codes & _mm512_set1_epi8((char)0x80);
    return pairs_of(kLower.look_up(codes), kUpper.look_up(codes) | sign, part);
  }

 private:
  static constexpr E4m3Bytes kLower{0}, kUpper{8};
};
template <>
struct Steps<WeightType::kE4m3> : E4m3Steps {
  typedef NoGroup Group;
  MK_INLINE static Weights load(const char* p, u32 part, NoGroup) { return numbers(p, part); }
};
template <>
struct Steps<WeightType::kE4m3Block> : E4m3Steps {
  typedef StripGroup Group;
  MK_INLINE static Group group(const char* p) { return {scales_of<WeightType::kE4m3Block>(p), {}}; }
  MK_INLINE static Weights load(const char* p, u32 part, const Group&) { return numbers(p, part); }
};
#else
template <>
struct Steps<WeightType::kBf16> : F32Steps, WordSteps<16> {
  typedef NoGroup Group;
  static constexpr u32 parts = cols;
  MK_INLINE static Weights load(const char* p, u32 part, NoGroup) {
    const u32x16 words = mk::load<u32x16>(p);
    return __builtin_bit_cast(f32x16, part == 0 ? words << 16 : words & 0xffff0000u);
  }
};

// code_of() gives the codes of 4 bits of one column.
MK_INLINE u32x16 code_of(const char* p, u32 part) {
  return mk::load<u32x16>(p) >> code_shift(part) & 15u;
}

template <WeightType Type>
struct CodeSteps<Type, CodeType::kInteger, 4> : F32Steps, WordSteps<4> {
  typedef StripGroup Group;
  static constexpr u32 parts = cols;
  MK_INLINE static Group group(const char* p) { return {scales_of<Type>(p), zeros_of<Type>(p)}; }
  MK_INLINE static Weights load(const char* p, u32 part, const Group& group) {
    return __builtin_convertvector((i32x16)(code_of(p, part) - group.zeros), f32x16);
  }
};

template <WeightType Type>
struct CodeSteps<Type, CodeType::kE2m1, 4> : F32Steps, WordSteps<4> {
  typedef StripGroup Group;
  static constexpr u32 parts = cols;
  MK_INLINE static Group group(const char* p) { return {scales_of<Type>(p), {}}; }
  MK_INLINE static Weights load(const char* p, u32 part, const Group&) {
    const u32x16 codes = code_of(p, part);
    f32x16 numbers;
    numbers.lo = (f32x8)_mm256_permutevar8x32_ps(_mm256_loadu_ps(kE2m1), (__m256i)codes.lo);
    numbers.hi = (f32x8)_mm256_permutevar8x32_ps(_mm256_loadu_ps(kE2m1), (__m256i)codes.hi);
    return __builtin_bit_cast(f32x16, __builtin_bit_cast(u32x16, numbers) | (codes & 8) << 28);
  }

 private:
  typedef f32 f32x8 __attribute__((ext_vector_type(8)));
};

// ByteSteps take four columns of 8 bits. The first 8 of each 16 bytes have the first pair of columns.
struct ByteSteps : F32Steps, WordSteps<8> {
  static constexpr u32 parts = cols;
  // pairs() gives the codes of a pair of columns for each row.
  MK_INLINE static u16x16 pairs(const char* p, u32 part) {
    typedef uint16_t u16x32 __attribute__((ext_vector_type(32)));
    const u16x32 all = mk::load<u16x32>(p);
    if (part / 2 == 0)
      return __builtin_shufflevector(all, all, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    return __builtin_shufflevector(all, all, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  }
  MK_INLINE static u16x16 code_of(const char* p, u32 part) {
    return part % 2 == 0 ? pairs(p, part) & 0xff : pairs(p, part) >> 8;
  }
};

template <WeightType Type>
struct CodeSteps<Type, CodeType::kInteger, 8> : ByteSteps {
  typedef StripGroup Group;
  MK_INLINE static Group group(const char* p) { return {scales_of<Type>(p), zeros_of<Type>(p)}; }
  MK_INLINE static Weights load(const char* p, u32 part, const Group& group) {
    return __builtin_convertvector((i32x16)(__builtin_convertvector(code_of(p, part), u32x16) - group.zeros),
                                   f32x16);
  }
};
template <>
struct Steps<WeightType::kE4m3> : ByteSteps {
  typedef NoGroup Group;
  MK_INLINE static Weights load(const char* p, u32 part, NoGroup) { return widen_e4m3(code_of(p, part)); }
};
template <>
struct Steps<WeightType::kE4m3Block> : ByteSteps {
  typedef StripGroup Group;
  MK_INLINE static Group group(const char* p) { return {scales_of<WeightType::kE4m3Block>(p), {}}; }
  MK_INLINE static Weights load(const char* p, u32 part, const Group&) {
    return widen_e4m3(code_of(p, part));
  }
};
#endif

}  // namespace mk
