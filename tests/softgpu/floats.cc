// Floating-point numbers are computed (PTX ISA, "Floating Point Instructions") and converted ("cvt").
#include <limits>

#include "tests/softgpu/forms.h"
#include "tests/softgpu/number.h"

namespace softgpu {
namespace {

// A number wins against NaN, and +0 is greater than -0.
float greater(float a, float b) {
  if (std::isnan(a)) return std::isnan(b) ? as_float(0x7fffffff) : b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
float lesser(float a, float b) {
  if (std::isnan(a)) return std::isnan(b) ? as_float(0x7fffffff) : b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
float flush(float a) {
  return std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(0.0f, a) : a;
}

// Applies F to each of the two floats in 64 bits.
template <float (*F)(float, float)>
u64 both(u64 a, u64 b) {
  const u32 low = as_bits(F(as_float(static_cast<u32>(a)), as_float(static_cast<u32>(b))));
  const u32 high = as_bits(F(as_float(static_cast<u32>(a >> 32)), as_float(static_cast<u32>(b >> 32))));
  return u64{high} << 32 | low;
}

// Converts to an integer, rounding towards zero. Values out of range saturate. NaN becomes 0 in 32 bits, and
// the top bit alone in 64 bits.
template <class T>
T truncate(float a) {
  if (std::isnan(a)) return sizeof(T) == 8 ? static_cast<T>(u64{1} << 63) : T{0};
  const double t = std::trunc(static_cast<double>(a));
  if (t < static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (t >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return std::numeric_limits<T>::max();
  return static_cast<T>(t);
}

template <class D, class S>
void add_resize(Forms& f, const std::string& d, const std::string& s) {
  f["cvt." + d + "." + s] = map<+[](S a) { return static_cast<D>(a); }>();
}

}  // namespace

void add_float_forms(Forms& f) {
  for (const std::string& rounding : {"", ".rn"}) {
    f["add" + rounding + ".f32"] = map<+[](float a, float b) { return a + b; }>();
    f["sub" + rounding + ".f32"] = map<+[](float a, float b) { return a - b; }>();
    f["mul" + rounding + ".f32"] = map<+[](float a, float b) { return a * b; }>();
    f["add" + rounding + ".f32x2"] =
        map<+[](u64 a, u64 b) { return both<+[](float x, float y) { return x + y; }>(a, b); }>();
    f["mul" + rounding + ".f32x2"] =
        map<+[](u64 a, u64 b) { return both<+[](float x, float y) { return x * y; }>(a, b); }>();
  }
  // Mixed-precision add, sub and fma take 16-bit operands and a 32-bit addend (PTX ISA 8.6, sm_100 on). Their
  // results are exact before they are rounded.
  for (const std::string& rounding : {"", ".rn"}) {
    f["add" + rounding + ".f32.f16"] = map<+[](u16 a, float c) { return of_f16(a) + c; }>();
    f["sub" + rounding + ".f32.f16"] = map<+[](u16 a, float c) { return of_f16(a) - c; }>();
    f["add" + rounding + ".f32.bf16"] = map<+[](u16 a, float c) { return of_bf16(a) + c; }>();
    f["sub" + rounding + ".f32.bf16"] = map<+[](u16 a, float c) { return of_bf16(a) - c; }>();
  }
  f["fma.rn.f32.f16"] = map<+[](u16 a, u16 b, float c) { return std::fma(of_f16(a), of_f16(b), c); }>();
  f["fma.rn.f32.bf16"] = map<+[](u16 a, u16 b, float c) { return std::fma(of_bf16(a), of_bf16(b), c); }>();
  f["div.rn.f32"] = map<+[](float a, float b) { return a / b; }>();
  f["fma.rn.f32"] = map<+[](float a, float b, float c) { return std::fma(a, b, c); }>();
  f["fma.rn.f32x2"] = map<+[](u64 a, u64 b, u64 c) {
    const auto one = [](u64 x, u64 y, u64 z) {
      return as_bits(std::fma(as_float(static_cast<u32>(x)), as_float(static_cast<u32>(y)),
                              as_float(static_cast<u32>(z))));
    };
    return u64{one(a >> 32, b >> 32, c >> 32)} << 32 | one(a, b, c);
  }>();
  f["max.f32 of three"] =
      map<+[](float a, float b, float c) { return greater(greater(a, b), c); }>();  // PTX ISA 8.8, sm_100 on
  f["max.f32"] = map<+[](float a, float b) { return greater(a, b); }>();
  f["min.f32"] = map<+[](float a, float b) { return lesser(a, b); }>();
  f["abs.f32"] = map<+[](float a) { return std::fabs(a); }>();
  f["neg.f32"] = map<+[](float a) { return -a; }>();
  f["selp.f32"] = map<+[](float a, float b, bool p) { return p ? a : b; }>();
  // Approximate instructions are as exact here as a float can be. A GPU's results may differ in the last
  // bits.
  f["ex2.approx.f32"] = map<+[](float a) { return std::exp2(a); }>();
  f["ex2.approx.ftz.f32"] = map<+[](float a) { return flush(std::exp2(flush(a))); }>();
  f["lg2.approx.f32"] = map<+[](float a) { return std::log2(a); }>();
  f["sqrt.rn.f32"] = map<+[](float a) { return std::sqrt(a); }>();
  f["rsqrt.approx.f32"] =
      map<+[](float a) { return static_cast<float>(1 / std::sqrt(static_cast<double>(a))); }>();
  f["rcp.approx.ftz.f32"] = map<+[](float a) { return flush(1 / flush(a)); }>();
  f["rcp.rn.f32"] = map<+[](float a) { return 1 / a; }>();
}

// Returns a sum rounded to odd: a sum that doubles do not hold becomes the neighbour with an odd last bit. A
// later rounding to fewer bits then gives what one rounding of the exact sum gives.
double sum_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double of_b = sum - a, error = (a - (sum - of_b)) + (b - of_b);
  const u64 bits = std::bit_cast<u64>(sum);
  if (error == 0 || (bits & 1) != 0) return sum;
  return std::bit_cast<double>((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

// Returns the results of two halves, each computed without rounding and then rounded once.
template <class Compute>
u32 bf16_halves(u32 a, u32 b, u32 c, const Compute& compute) {
  const auto one = [&](u32 shift) {
    const auto half = [&](u32 word) { return double{of_bf16(word >> shift & 0xffff)}; };
    return u32{bf16_of_exact(compute(half(a), half(b), half(c)))} << shift;
  };
  return one(16) | one(0);
}

void add_bf16x2_forms(Forms& f) {
  f["fma.rn.bf16x2"] = map<+[](u32 a, u32 b, u32 c) {
    return bf16_halves(a, b, c, [](double x, double y, double z) { return sum_to_odd(x * y, z); });
  }>();
  f["max.xorsign.abs.bf16x2"] = map<+[](u32 a, u32 b) {
    const u32 signs = (a ^ b) & 0x80008000;
    return signs | bf16_halves(a & 0x7fff7fff, b & 0x7fff7fff, 0,
                               [](double x, double y, double) { return std::fmax(x, y); });
  }>();
  for (const std::string& rounding : {"", ".rn"}) {
    f["add" + rounding + ".bf16x2"] = map<+[](u32 a, u32 b) {
      return bf16_halves(a, b, 0, [](double x, double y, double) { return sum_to_odd(x, y); });
    }>();
    f["sub" + rounding + ".bf16x2"] = map<+[](u32 a, u32 b) {
      return bf16_halves(a, b, 0, [](double x, double y, double) { return sum_to_odd(x, -y); });
    }>();
    f["mul" + rounding + ".bf16x2"] = map<+[](u32 a, u32 b) {
      return bf16_halves(a, b, 0, [](double x, double y, double) { return x * y; });
    }>();
  }
}

void add_convert_forms(Forms& f) {
  add_resize<u16, u32>(f, "u16", "u32");
  add_resize<u16, u64>(f, "u16", "u64");
  add_resize<u32, u16>(f, "u32", "u16");
  add_resize<u32, u64>(f, "u32", "u64");
  add_resize<u64, u16>(f, "u64", "u16");
  add_resize<u64, u32>(f, "u64", "u32");
  add_resize<s32, int16_t>(f, "s32", "s16");
  add_resize<s64, s32>(f, "s64", "s32");
  add_resize<s64, int16_t>(f, "s64", "s16");
  f["cvt.s16.s8"] = map<+[](u16 a) { return static_cast<int16_t>(static_cast<int8_t>(a)); }>();
  f["cvt.s32.s8"] = map<+[](u32 a) { return static_cast<s32>(static_cast<int8_t>(a)); }>();
  f["cvt.u16.u8"] = map<+[](u16 a) { return static_cast<u16>(a & 0xff); }>();
  f["cvt.u32.u8"] = map<+[](u32 a) { return a & 0xff; }>();
  f["cvt.rn.f32.u16"] = map<+[](u16 a) { return static_cast<float>(a); }>();
  f["cvt.rn.f32.u32"] = map<+[](u32 a) { return static_cast<float>(a); }>();
  f["cvt.rn.f32.s32"] = map<+[](s32 a) { return static_cast<float>(a); }>();
  f["cvt.rn.f32.u64"] = map<+[](u64 a) { return static_cast<float>(a); }>();
  f["cvt.rn.f32.s64"] = map<+[](s64 a) { return static_cast<float>(a); }>();
  f["cvt.rzi.u32.f32"] = map<+[](float a) { return truncate<u32>(a); }>();
  f["cvt.rzi.s32.f32"] = map<+[](float a) { return truncate<s32>(a); }>();
  f["cvt.rzi.u64.f32"] = map<+[](float a) { return truncate<u64>(a); }>();
  f["cvt.rzi.s64.f32"] = map<+[](float a) { return truncate<s64>(a); }>();
  f["cvt.rzi.f32.f32"] = map<+[](float a) { return std::trunc(a); }>();
  f["cvt.rmi.f32.f32"] = map<+[](float a) { return std::floor(a); }>();
  f["cvt.rpi.f32.f32"] = map<+[](float a) { return std::ceil(a); }>();
  f["cvt.rni.f32.f32"] = map<+[](float a) { return std::nearbyint(a); }>();
  f["cvt.f32.bf16"] = map<+[](u16 a) { return of_bf16(a); }>();
  f["cvt.rn.bf16.f32"] = map<+[](float a) { return bf16_of(a); }>();
  f["cvt.f32.f16"] = map<+[](u16 a) { return of_f16(a); }>();
  f["cvt.rn.f16.f32"] = map<+[](float a) { return f16_of(a); }>();
  // The first of two sources becomes the upper half.
  f["cvt.rn.bf16x2.f32"] = map<+[](float a, float b) { return u32{bf16_of(a)} << 16 | bf16_of(b); }>();
  f["cvt.rn.f16x2.f32"] = map<+[](float a, float b) { return u32{f16_of(a)} << 16 | f16_of(b); }>();
  f["cvt.rn.satfinite.e4m3x2.f32"] =
      map<+[](float a, float b) { return static_cast<u16>(e4m3_of(a) << 8 | e4m3_of(b)); }>();
  f["cvt.rn.f16x2.e4m3x2"] =
      map<+[](u16 c) { return u32{f16_of(of_e4m3(c >> 8))} << 16 | f16_of(of_e4m3(c & 0xff)); }>();
}

}  // namespace softgpu
