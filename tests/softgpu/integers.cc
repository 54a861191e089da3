// Integers are computed and moved (PTX ISA, "Integer Arithmetic", "Logic and Shift", "Data Movement").
#include <algorithm>

#include "tests/softgpu/forms.h"

namespace softgpu {
namespace {

// Shift amounts beyond the width count as the width.
template <class T>
T shift_left(T a, u32 n) {
  return n >= 8 * sizeof(T) ? T{0} : static_cast<T>(u64{a} << n);
}
template <class T>
T shift_right(T a, u32 n) {
  constexpr u32 kLast = 8 * sizeof(T) - 1;
  if (n > kLast) return std::is_signed_v<T> ? static_cast<T>(a >> kLast) : T{0};
  return static_cast<T>(a >> n);
}

// Position and length are the low 8 bits of their operands. The sign of a signed field fills the rest.
template <class T>
T extract_field(T a, u32 position, u32 length) {
  using U = std::make_unsigned_t<T>;
  constexpr u32 kBits = 8 * sizeof(T);
  position &= 0xff, length &= 0xff;
  if (length == 0) return 0;
  const u32 last = std::min(position + length - 1, kBits - 1);
  const bool sign = std::is_signed_v<T> && (static_cast<U>(a) >> last & 1);
  const U fill = sign ? static_cast<U>(~U{0}) : U{0};
  if (position >= kBits) return static_cast<T>(fill);
  const u32 taken = std::min(length, kBits - position);
  const U value = static_cast<U>(a) >> position;
  if (taken == kBits) return static_cast<T>(value);
  const U mask = static_cast<U>((U{1} << taken) - 1);
  return static_cast<T>((value & mask) | (fill & ~mask));
}

// Each 4-bit selector takes one of 8 bytes. A selector whose top bit is set takes that byte's sign instead.
u32 permute(u32 a, u32 b, u32 selectors) {
  const u64 bytes = u64{b} << 32 | a;
  u32 result = 0;
  for (u32 n = 0; n < 4; ++n) {
    const u32 selector = selectors >> 4 * n & 15;
    u32 byte = bytes >> 8 * (selector & 7) & 0xff;
    if (selector & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << 8 * n;
  }
  return result;
}

template <class T, bool Remainder>
Flow divide(Warp& w, const Instruction& i, uint32_t lanes) {
  const T *a = w.at<T>(w.operand(i, 1)), *b = w.at<T>(w.operand(i, 2));
  T out[32];
  each_lane(lanes, [&](uint32_t l) {
    if (b[l] == 0) w.machine().fault(&w, &i, "division by zero in lane " + std::to_string(l));
    const bool negates =
        std::is_signed_v<T> && b[l] == static_cast<T>(-1);  // x86 divides no least number by -1
    if (negates)
      out[l] = Remainder ? T{0} : static_cast<T>(u64{0} - static_cast<u64>(a[l]));
    else
      out[l] = static_cast<T>(Remainder ? a[l] % b[l] : a[l] / b[l]);
  });
  write_lanes(w, w.operand(i, 0), lanes, out);
  return Flow::kNext;
}

template <class T>
void add_common(Forms& f, const std::string& type, const std::string& bits) {
  f["add." + type] = map<+[](T a, T b) { return static_cast<T>(a + b); }>();
  f["sub." + type] = map<+[](T a, T b) { return static_cast<T>(a - b); }>();
  f["mul.lo." + type] = map<+[](T a, T b) { return static_cast<T>((0u + a) * b); }>();
  f["mad.lo." + type] = map<+[](T a, T b, T c) { return static_cast<T>((0u + a) * b + c); }>();
  f["neg." + type] = map<+[](T a) { return static_cast<T>(T{0} - a); }>();
  f["and." + bits] = map<+[](T a, T b) { return static_cast<T>(a & b); }>();
  f["or." + bits] = map<+[](T a, T b) { return static_cast<T>(a | b); }>();
  f["xor." + bits] = map<+[](T a, T b) { return static_cast<T>(a ^ b); }>();
  f["not." + bits] = map<+[](T a) { return static_cast<T>(~a); }>();
  f["shl." + bits] = map<+[](T a, u32 n) { return shift_left(a, n); }>();
  for (const std::string& t : {bits, type, "u" + bits.substr(1)})
    f["selp." + t] = map<+[](T a, T b, bool p) { return p ? a : b; }>();
  Form move = map<+[](T a) { return a; }>();
  move.copies = true;
  for (const std::string& t : {bits, type, "u" + bits.substr(1)}) f["mov." + t] = move;
}

template <class T>
void add_ordered(Forms& f, const std::string& type) {
  f["min." + type] = map<+[](T a, T b) { return std::min(a, b); }>();
  f["max." + type] = map<+[](T a, T b) { return std::max(a, b); }>();
  f["shr." + type] = map<+[](T a, u32 n) { return shift_right(a, n); }>();
  f["div." + type] = {divide<T, false>, sizeof(T) == 4 ? "w=ww" : "d=dd"};
  f["rem." + type] = {divide<T, true>, sizeof(T) == 4 ? "w=ww" : "d=dd"};
  f["bfe." + type] = map<+[](T a, u32 at, u32 n) { return extract_field(a, at, n); }>();
}

// Adds the moves that pack two registers of n bytes into one of 2n bytes, the lower one first, and that
// unpack it.
template <class Half, class Whole>
void add_vector_moves(Forms& f, const std::string& name) {
  constexpr u32 kBits = 8 * sizeof(Half);
  Form pack =
      map<+[](Half low, Half high) { return static_cast<Whole>(Whole{low} | Whole{high} << kBits); }>();
  pack.copies = true;
  f[name + " pack"] = pack;
  const Execute unpack = [](Warp& w, const Instruction& i, uint32_t lanes) {
    Half low[32], high[32];
    const Whole* whole = w.at<Whole>(w.operand(i, 2));
    each_lane(lanes, [&](uint32_t l) {
      low[l] = static_cast<Half>(whole[l]);
      high[l] = static_cast<Half>(whole[l] >> kBits);
    });
    write_lanes(w, w.operand(i, 0), lanes, low);
    write_lanes(w, w.operand(i, 1), lanes, high);
    return Flow::kNext;
  };
  f[name + " unpack"] = {unpack, sizeof(Half) == 2 ? "hh=w" : "ww=d"};
  f[name + " unpack"].copies = true;
}

template <class S, class D>
void add_wide(Forms& f, const std::string& type) {
  f["mul.wide." + type] = map<+[](S a, S b) { return static_cast<D>(D{a} * D{b}); }>();
  f["mad.wide." + type] = map<+[](S a, S b, D c) { return static_cast<D>(D{a} * D{b} + c); }>();
}

}  // namespace

void add_integer_forms(Forms& f) {
  add_common<u16>(f, "s16", "b16");
  add_common<u32>(f, "s32", "b32");
  add_common<u64>(f, "s64", "b64");
  f["add.u32"] = f["add.s32"], f["add.u64"] = f["add.s64"];
  add_ordered<u32>(f, "u32");
  add_ordered<s32>(f, "s32");
  add_ordered<u64>(f, "u64");
  add_ordered<s64>(f, "s64");
  f["shr.u16"] = map<+[](u16 a, u32 n) { return shift_right(a, n); }>();
  f["shr.s16"] = map<+[](s16 a, u32 n) { return shift_right(a, n); }>();
  f["min.u16"] = map<+[](u16 a, u16 b) { return std::min(a, b); }>();
  f["max.u16"] = map<+[](u16 a, u16 b) { return std::max(a, b); }>();
  add_wide<u16, u32>(f, "u16");
  add_wide<s16, s32>(f, "s16");
  add_wide<u32, u64>(f, "u32");
  add_wide<s32, s64>(f, "s32");
  f["mul.hi.u32"] = map<+[](u32 a, u32 b) { return static_cast<u32>(u64{a} * b >> 32); }>();
  f["mul.hi.s32"] = map<+[](s32 a, s32 b) { return static_cast<s32>(s64{a} * b >> 32); }>();
  f["mul.hi.u64"] = map<+[](u64 a, u64 b) {
    const u64 low = (a & 0xffffffff) * (b & 0xffffffff), mid = (a >> 32) * (b & 0xffffffff) + (low >> 32);
    const u64 other = (a & 0xffffffff) * (b >> 32) + (mid & 0xffffffff);
    return (a >> 32) * (b >> 32) + (mid >> 32) + (other >> 32);
  }>();
  f["abs.s32"] = map<+[](s32 a) { return a < 0 ? static_cast<s32>(0u - static_cast<u32>(a)) : a; }>();
  f["prmt.b32"] = map<+[](u32 a, u32 b, u32 c) { return permute(a, b, c); }>();
  f["popc.b32"] = map<+[](u32 a) { return static_cast<u32>(__builtin_popcount(a)); }>();
  f["popc.b64"] = map<+[](u64 a) { return static_cast<u32>(__builtin_popcountll(a)); }>();
  f["clz.b32"] = map<+[](u32 a) { return a ? static_cast<u32>(__builtin_clz(a)) : 32u; }>();
  f["brev.b32"] = map<+[](u32 a) { return __builtin_bitreverse32(a); }>();
  f["shf.l.wrap.b32"] =
      map<+[](u32 a, u32 b, u32 n) { return static_cast<u32>((u64{b} << 32 | a) << (n & 31) >> 32); }>();
  f["shf.r.wrap.b32"] =
      map<+[](u32 a, u32 b, u32 n) { return static_cast<u32>((u64{b} << 32 | a) >> (n & 31)); }>();
  add_vector_moves<u16, u32>(f, "mov.b32");
  add_vector_moves<u32, u64>(f, "mov.b64");
  f["and.pred"] = map<+[](bool a, bool b) { return a && b; }>();
  f["or.pred"] = map<+[](bool a, bool b) { return a || b; }>();
  f["xor.pred"] = map<+[](bool a, bool b) { return a != b; }>();
  f["not.pred"] = map<+[](bool a) { return !a; }>();
  f["mov.pred"] = map<+[](bool a) { return a; }>();
  f["mov.pred"].copies = true;
}

}  // namespace softgpu
