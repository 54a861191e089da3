// Each weight format says which words a lane reads of a k-step, and how they become an A fragment.
#pragma once

#include "codegen/device/storage_types.h"

namespace mk {

// of_e8m0() is 2^(bits - 127). 0 is a subnormal number, and 255, which is NaN, has no place in a weight.
MK_INLINE f32 of_e8m0(u32 bits) {
  return as_f32(bits == 0 ? 0x00400000u : bits << 23);
}

// Group has what a lane needs of a group of columns. These are the scales of rows g and g + 8, where lane = 4
// g + t, and what unpack() subtracts from their codes.
struct Group {
  f32x2 scales;
  u32 zeros[2];
};

// Format has what all formats of weights share. X is the storage type of the operands.
template <WeightType Type, class Storage, class LaneWords>
struct Format {
  using X = Storage;
  using Words = LaneWords;  // a lane's share of a k-step as it is stored
  static constexpr WeightType type = Type;
  static constexpr WeightFormat row = weight_format(Type);
  static constexpr bool matrix = row.matrix(), scaled = row.scale_bytes != 0, grouped = row.grouped();
  static constexpr bool e4m3 = row.e4m3(), by_warpgroups = mkrt::by_warpgroups(row);
  static constexpr u32 scale_words = row.scale_bytes / sizeof(Words);
  // k-steps that share scales, and what these have behind the k-steps of a tile slice.
  static constexpr u32 group_steps = grouped ? row.group_cols / row.step_cols : 1;
  static constexpr u32 group_words = row.group_bytes() / sizeof(Words);
  static_assert(sizeof(Words) == row.bytes_of(kLaneOperandBytes));

  // group_scales() reads the scales of the lane's rows from what a group has behind its columns.
  MK_INLINE static f32x2 group_scales(u32 lane, AS3 const Words* group) {
    AS3 const char* at = (AS3 const char*)group;
    const u32 low = scale_in_group(row, lane / 4), high = scale_in_group(row, lane / 4 + kStripRows / 2);
    if constexpr (row.group_scale == ScaleType::kF32)
      return {*(AS3 const f32*)(at + low), *(AS3 const f32*)(at + high)};
    if constexpr (row.group_scale == ScaleType::kF16)
      return {F16::low(*(AS3 const uint16_t*)(at + low)), F16::low(*(AS3 const uint16_t*)(at + high))};
    const u32 bits = *(AS3 const uint8_t*)(at + low) | (u32) * (AS3 const uint8_t*)(at + high) << 8;
    if constexpr (row.group_scale == ScaleType::kE8m0) return {of_e8m0(bits & 0xffu), of_e8m0(bits >> 8)};
    const u32 halves = mk_unpack_e4m3(bits);
    return {F16::low(halves), F16::high(halves)};
  }
  // zero() is the zero point of row g + 8 `half`.
  MK_INLINE static u32 zero(u32 lane, AS3 const Words* group, u32 half) {
    return ((AS3 const uint8_t*)group)[zero_in_group(row, lane / 4 + half * kStripRows / 2)];
  }
};

// The WeightsOf of a format have unpack(), which gives a lane's A fragment of mma.m16n8k16, or its f32
// weights. unpack() of a format with groups takes the Group that group() reads.
// Formats of integers and of E2M1 differ by their rows alone.
template <WeightType Type, CodeType Code, u32 Bits>
struct Codes;
template <WeightType Type>
struct WeightsOf : Codes<Type, weight_format(Type).code, weight_format(Type).bits> {};
template <>
struct WeightsOf<WeightType::kF32> : Format<WeightType::kF32, F32, u32x4> {
  MK_INLINE static u32x4 unpack(Words words) { return words; }
};
template <>
struct WeightsOf<WeightType::kF16> : Format<WeightType::kF16, F16, u32x4> {
  MK_INLINE static u32x4 unpack(Words words) { return words; }
};
template <>
struct WeightsOf<WeightType::kBf16> : Format<WeightType::kBf16, Bf16, u32x4> {
  MK_INLINE static u32x4 unpack(Words words) { return words; }
};

MK_INLINE u32x4 unpack_e4m3(u32x2 words) {
  // f16 and bf16 hold every value of E4M3.
  const auto pair = [](u32 codes) {
    const u32 halves = mk_unpack_e4m3(codes);
    return Bf16::pack(F16::low(halves), F16::high(halves));
  };
  return {pair(words[0]), pair(words[1]), pair(words[0] >> 16), pair(words[1] >> 16)};
}
template <>
struct WeightsOf<WeightType::kE4m3> : Format<WeightType::kE4m3, Bf16, u32x2> {
  MK_INLINE static u32x4 unpack(Words words) { return unpack_e4m3(words); }
};
template <>
struct WeightsOf<WeightType::kE4m3Block> : Format<WeightType::kE4m3Block, Bf16, u32x2> {
  MK_INLINE static Group group(u32 lane, AS3 const Words* at) { return {group_scales(lane, at), {}}; }
  MK_INLINE static u32x4 unpack(Words words, const Group& = {}) { return unpack_e4m3(words); }
};

// Integers of 4 bits are from 0 to 15. Without zero points they stand for -8 to 7.
template <WeightType Type>
struct Codes<Type, CodeType::kInteger, 4> : Format<Type, Bf16, u32> {
  using Base = Format<Type, Bf16, u32>;
  MK_INLINE static Group group(u32 lane, AS3 const u32* at) {
    const auto minus = [&](u32 half) { return minus_of(Base::row.zeros ? Base::zero(lane, at, half) : 8); };
    return {Base::group_scales(lane, at), {minus(0), minus(1)}};
  }
  MK_INLINE static u32x4 unpack(u32 words, const Group& group) {
    return {pair(words, group.zeros[0]), pair(words >> 8, group.zeros[1]), pair(words >> 4, group.zeros[0]),
            pair(words >> 12, group.zeros[1])};
  }

 private:
  // minus_of() is a pair of bf16 -(128 + zero), for zero points up to 127.
  MK_INLINE static u32 minus_of(u32 zero) { return (0xc300u | zero) * 0x10001u; }
  // The mantissa of bf16 128 takes a code as its lowest bits. The subtraction is exact.
  MK_INLINE static u32 pair(u32 codes, u32 minus) {
    constexpr u32 k128 = 0x43004300, kOne = 0x3f803f80;
    return mk_fma_bf16x2((codes & 0x000f000fu) | k128, kOne, minus);
  }
};

// Integers of 8 bits are from 0 to 255. bf16 holds the difference of a code and a zero point.
template <WeightType Type>
struct Codes<Type, CodeType::kInteger, 8> : Format<Type, Bf16, u32x2> {
  using Base = Format<Type, Bf16, u32x2>;
  MK_INLINE static Group group(u32 lane, AS3 const u32x2* at) {
    return {Base::group_scales(lane, at),
            {k2To23 | Base::zero(lane, at, 0), k2To23 | Base::zero(lane, at, 1)}};
  }
  MK_INLINE static u32x4 unpack(u32x2 words, const Group& group) {
    return {pair(words[0], group.zeros[0]), pair(words[1], group.zeros[1]),
            pair(words[0] >> 16, group.zeros[0]), pair(words[1] >> 16, group.zeros[1])};
  }

 private:
  // The mantissa of f32 2^23 takes an integer as its lowest bits.
  static constexpr u32 k2To23 = 0x4b000000;
  MK_INLINE static u32 pair(u32 codes, u32 zero) {
    return Bf16::pack(as_f32((codes & 0xffu) | k2To23) - as_f32(zero),
                      as_f32((codes >> 8 & 0xffu) | k2To23) - as_f32(zero));
  }
};

template <WeightType Type>
struct Codes<Type, CodeType::kE2m1, 4> : Format<Type, Bf16, u32> {
  MK_INLINE static Group group(u32 lane, AS3 const u32* at) {
    return {Format<Type, Bf16, u32>::group_scales(lane, at), {}};
  }
  MK_INLINE static u32x4 unpack(u32 words, const Group&) {
    return {pair(words), pair(words >> 8), pair(words >> 4), pair(words >> 12)};
  }

 private:
  // The bits of a code in the exponent and mantissa of bf16 are 2^-126 of its number, subnormal or not.
  MK_INLINE static u32 pair(u32 codes) {
    constexpr u32 k2To126 = 0x7e807e80, kMinusZero = 0x80008000;
    return mk_fma_bf16x2((codes & 0x00080008u) << 12 | (codes & 0x00070007u) << 6, k2To126, kMinusZero);
  }
};

}  // namespace mk
