// The processor multiplies weights of each format in its own way.
#pragma once

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
// part takes one X of a row. load() gives a part of a step's weights, and step() adds their products with X,
// which all lanes have.
// put() stores 16 columns of a row as X. group() reads what follows the columns of a group.
// `scale` is what all weights are multiplied with, so that the scales of rows or groups take its place. see()
// notes a step's codes, and with_nans() makes the sums of rows NaN where some code was.
// Formats of integers and of E2M1 differ by their rows alone.
template <WeightType Type, CodeType Code, u32 Bits>
struct CodeSteps;
template <WeightType Type>
struct Steps : CodeSteps<Type, weight_format(Type).code, weight_format(Type).bits> {};

// PlainSteps take rows of x as they are, and have no codes that load() gets wrong.
struct PlainSteps {
  struct Seen {};
  struct RowGroup {};  // what a row has for a group of columns
  typedef f32x16 GroupSum;
  static constexpr f32 scale = 1;
  static constexpr u32 row_group_words = 0;
  static constexpr u32 partial_sums = 1;     // of a group or a chunk, to which its parts are added in turn
  static constexpr bool exact = false;       // sums of a group are the same in any order
  static constexpr bool as_packed = false;   // load() reads a part as it lies there
  static constexpr bool bf16_pairs = false;  // X are pairs of bf16, in the order of the columns
  static constexpr bool amx = false;         // product_amx.h multiplies any number of tokens
  MK_INLINE static void see(Seen&, const char*) {}
  MK_INLINE static f32x16 with_nans(f32x16 sum, const Seen&) { return sum; }
  // start() is what the sum of a group of columns begins with. add_group() adds such a sum, times the scales.
  template <class Group>
  MK_INLINE static GroupSum start(const Group&, RowGroup) {
    return {};
  }
  template <class Group>
  MK_INLINE static f32x16 add_group(f32x16 sum, GroupSum of, const Group& group, RowGroup) {
    return fma(of, group.scales, sum);
  }
};

// F32Steps multiply by multiply-adds of f32.
struct F32Steps : PlainSteps {
  typedef f32 X;
  typedef f32x16 Weights;
  MK_INLINE static f32x16 step(f32x16 sum, Weights w, Weights x) { return fma(w, x, sum); }
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
struct Steps<WeightType::kF32> : ColumnSteps<F32> {
  static constexpr bool as_packed = true;
};
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

// zeros_of() reads the zero points of a group. They are 0 for a format without zero points.
template <WeightType Type>
MK_INLINE u32x16 zeros_of(const char* p) {
  constexpr WeightFormat row = weight_format(Type);
  if constexpr (!row.zeros) return {};
  return __builtin_convertvector(mk::load<u8x16>(p + row.zeros_at()), u32x16);
}

// WordSteps take the columns whose codes a row has in a word.
template <u32 Bits>
struct WordSteps {
  static constexpr u32 cols = 32 / Bits, bytes = kStripRows * sizeof(u32);
  // code_pair() gives the codes of columns 2 pair and 2 pair + 1 of each row, in the lower bits of its
  // halves.
  MK_INLINE static u32x16 code_pair(const char* p, u32 pair) {
    return mk::load<u32x16>(p) >> code_shift(Bits, 2 * pair) & ((1u << Bits) - 1) * 0x10001u;
  }
};

// IntegerSteps multiply pairs of 16-bit integers, and add them exactly within a group of columns. A row's
// group has a scale, by which its greatest magnitude becomes 2^15 - 1. The sum of its integers times a zero
// point is what the codes sum up to beyond their numbers, so sums begin below 0 by as much. The row keeps
// sum_factor times its sum, which is the start itself where all rows of the strip have the same zero point.
struct IntegerSteps : PlainSteps {
  typedef u32 X;
  typedef u32x16 Weights;
  typedef i32x16 GroupSum;
  struct RowGroup {
    f32 scale;
    int32_t sum;
  };
  static constexpr u32 row_group_words = sizeof(RowGroup) / sizeof(X);
  static constexpr bool exact = true;
  MK_INLINE static i32x16 step(i32x16 sum, Weights w, Weights x) {
#ifdef __AVX512VNNI__
    return (i32x16)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)w, (__m512i)x);
#else
    i32x16 products;
    products.lo = (i32x8)_mm256_madd_epi16((__m256i)w.lo, (__m256i)x.lo);
    products.hi = (i32x8)_mm256_madd_epi16((__m256i)w.hi, (__m256i)x.hi);
    return sum + products;
#endif
  }
  MK_INLINE static f32x16 add_group(f32x16 sum, i32x16 of, const StripGroup& group, RowGroup row) {
    return fma(__builtin_convertvector(of, f32x16), group.scales * all_lanes(row.scale), sum);
  }
  // put_group() stores a group of 16 Vectors columns as integers. Values that are not finite make the scale
  // NaN.
  template <u32 Vectors>
  MK_INLINE static void put_group(X* to, RowGroup& group, const f32x16 (&values)[Vectors],
                                  int32_t sum_factor) {
    constexpr f32 kGreatest = 32767, kTiny = 0x1p-100f;
    u32x16 bits = 0;
    MK_UNROLL
    for (u32 i = 0; i < Vectors; ++i)
      bits = __builtin_elementwise_max(bits, __builtin_bit_cast(u32x16, values[i]) & 0x7fffffffu);
    const u32 max_bits = __builtin_reduce_max(bits);
    const f32 max = __builtin_bit_cast(f32, max_bits);
    const bool finite = max_bits < 0x7f800000u, some = finite && max >= kTiny;
    const f32 by = some ? kGreatest / max : 0;
    i32x16 sum = 0;
    MK_UNROLL
    for (u32 i = 0; i < Vectors; ++i) {
      const i32x16 integers = some ? nearest(values[i] * all_lanes(by)) : i32x16(0);
      sum += integers;
      store((char*)to + i * sizeof(u16x16), __builtin_convertvector(integers, u16x16));
    }
    group = {finite ? some ? max / kGreatest : 0 : __builtin_nanf(""),
             __builtin_reduce_add(sum) * sum_factor};
  }

 private:
  MK_INLINE static i32x16 nearest(f32x16 v) {
#ifdef __AVX512F__
    return (i32x16)_mm512_cvtps_epi32((__m512)v);
#else
    i32x16 integers;
    integers.lo = (i32x8)_mm256_cvtps_epi32((__m256)v.lo);
    integers.hi = (i32x8)_mm256_cvtps_epi32((__m256)v.hi);
    return integers;
#endif
  }
};

// Formats of 4 bits without zero points have codes around 8.
template <WeightType Type, u32 Bits>
struct CodeSteps<Type, CodeType::kInteger, Bits> : IntegerSteps, WordSteps<Bits> {
  typedef StripGroup Group;
  static constexpr bool zeros = weight_format(Type).zeros;
  static constexpr u32 parts = WordSteps<Bits>::cols / 2;
  static_assert(zeros || Bits == 4);
  static constexpr int32_t sum_factor = zeros ? -1 : -8;
  MK_INLINE static Group group(const char* p) { return {scales_of<Type>(p), zeros_of<Type>(p)}; }
  MK_INLINE static i32x16 start(const Group& group, RowGroup row) {
    return zeros ? (i32x16)group.zeros * i32x16(row.sum) : i32x16(row.sum);
  }
  MK_INLINE static Weights load(const char* p, u32 part, const Group&) {
    return WordSteps<Bits>::code_pair(p, part);
  }
};

// The integers of E2M1 are twice its numbers. Codes without a sign stand for these.
constexpr int8_t kTwiceE2m1[] = {0, 1, 2, 3, 4, 6, 8, 12};

template <WeightType Type>
struct CodeSteps<Type, CodeType::kE2m1, 4> : IntegerSteps, WordSteps<4> {
  typedef StripGroup Group;
  static constexpr u32 parts = cols / 2;
  static constexpr int32_t sum_factor = 0;
  MK_INLINE static i32x16 start(const Group&, RowGroup) { return {}; }
  MK_INLINE static Group group(const char* p) { return {scales_of<Type>(p) * 0.5f, {}}; }
  MK_INLINE static Weights load(const char* p, u32 part, const Group&) {
    return integers_of(WordSteps<4>::code_pair(p, part));
  }

 private:
#ifdef __AVX512BW__
  struct Table {
    int16_t of[32];  // by code; the upper half is not used
  };
  static constexpr Table kTable = [] {
    Table t{};
    for (u32 i = 0; i < 16; ++i) t.of[i] = (int16_t)(i < 8 ? kTwiceE2m1[i] : -kTwiceE2m1[i - 8]);
    return t;
  }();
  MK_INLINE static u32x16 integers_of(u32x16 codes) {
    return (u32x16)_mm512_permutexvar_epi16((__m512i)codes, (__m512i)mk::load<u32x16>(kTable.of));
  }
#else
  MK_INLINE static u32x16 integers_of(u32x16 codes) {
    u32x16 integers;
    integers.lo = (__typeof__(integers.lo))half_of((__m256i)codes.lo);
    integers.hi = (__typeof__(integers.hi))half_of((__m256i)codes.hi);
    return integers;
  }
  // The sign of a code is the highest of its four bits, which a shift makes the sign of its 16.
  MK_INLINE static __m256i half_of(__m256i codes) {
    const __m256i table = _mm256_set1_epi64x(mk::load<int64_t>(kTwiceE2m1));
    return _mm256_sign_epi16(_mm256_shuffle_epi8(table, codes), _mm256_slli_epi16(codes, 12));
  }
#endif
};

#ifdef __AVX512BF16__
// Bf16Steps multiply pairs of bf16.
struct Bf16Steps : PlainSteps {
  typedef u32 X;
  typedef u32x16 Weights;
  static constexpr bool bf16_pairs = true;
#ifdef __AMX_BF16__
  static constexpr bool amx = true;
#endif
  MK_INLINE static f32x16 step(f32x16 sum, Weights w, Weights x) { return add_dots(sum, w, x); }
  MK_INLINE static void put(X* to, f32x16 values) { store(to, dot_lanes(values)); }
};
template <>
struct Steps<WeightType::kBf16> : Bf16Steps, WordSteps<16> {
  typedef NoGroup Group;
  static constexpr u32 parts = 1;
  static constexpr bool as_packed = true;
  MK_INLINE static Weights load(const char* p, u32, NoGroup) { return mk::load<u32x16>(p); }
};

// bf16_of() is the bf16 of a number that bf16 holds exactly.
MK_INLINE constexpr uint16_t bf16_of(f32 v) {
  return (uint16_t)(__builtin_bit_cast(u32, v) >> 16);
}

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

// The bytes of four rows' pairs are put together within 16 bytes, so codes lie as kPairedCodes says. One
// token has one sum, and vdpbf16ps takes 6 clocks. Two partial sums wait for each other half as often.
struct E4m3Steps : Bf16Steps, WordSteps<8> {
  static constexpr u32 parts = cols / 2, partial_sums = 2;
  MK_INLINE static u32x16 numbers(const char* p, u32 part) {
    const __m512i codes = (__m512i)mk::load<u32x16>(p), sign = codes & _mm512_set1_epi8((char)0x80);
    const __m512i lower = kLower.look_up(codes), upper = kUpper.look_up(codes) | sign;
    return (u32x16)(part == 0 ? _mm512_unpacklo_epi8(lower, upper) : _mm512_unpackhi_epi8(lower, upper));
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

// E4m3Steps make a bf16 of a code by shifts of its bits, which is 2^-120 of its number. That of NaN is
// finite. Rows are multiplied with 2^48, so that products of rows between 2^-54 and 2^79 are far from the
// ends of f32.
struct E4m3Steps : F32Steps, WordSteps<8> {
  static constexpr u32 parts = cols;
  typedef int16_t i16x32 __attribute__((ext_vector_type(32)));
  static constexpr f32 row_scale = 0x1p48f, scale = 0x1p120f / row_scale;
  MK_INLINE static void put(X* to, f32x16 values) { store(to, values * all_lanes(row_scale)); }
  MK_INLINE static f32x16 numbers(const char* p, u32 part) {
    const i16x32 words = mk::load<i16x32>(p),
                 codes = part / 2 == 0 ? words << 8 : words;  // in the upper bytes
    const u32x16 pair = (u32x16)(codes >> 4) & 0x87f087f0u;   // the sign's copies take no bit
    return __builtin_bit_cast(f32x16, part % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
  }
};
template <>
struct Steps<WeightType::kE4m3> : E4m3Steps {
  typedef NoGroup Group;
  MK_INLINE static Weights load(const char* p, u32 part, NoGroup) { return numbers(p, part); }
};
template <>
struct Steps<WeightType::kE4m3Block> : E4m3Steps {
  typedef StripGroup Group;
  typedef uint8_t u8x64 __attribute__((ext_vector_type(64)));
  struct Seen {
    u8x64 greatest;  // code without its sign, in each place of a step
  };
  MK_INLINE static Group group(const char* p) { return {scales_of<WeightType::kE4m3Block>(p) * scale, {}}; }
  MK_INLINE static Weights load(const char* p, u32 part, const Group&) { return numbers(p, part); }
  MK_INLINE static void see(Seen& seen, const char* p) {
    seen.greatest = __builtin_elementwise_max(seen.greatest, mk::load<u8x64>(p) & 0x7f);
  }
  MK_INLINE static f32x16 with_nans(f32x16 sum, const Seen& seen) {
    const u32x16 of_row = (u32x16)(seen.greatest == 0x7f);
    return __builtin_bit_cast(f32x16,
                              __builtin_bit_cast(u32x16, sum) | ((u32x16)(of_row != 0) & 0x7fc00000u));
  }
};
#endif

}  // namespace mk
