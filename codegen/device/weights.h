// Weight formats as products multiply them: the words that a lane reads of a k-step, and their A fragment.
#pragma once

#include "codegen/device/worker.h"

namespace mk {

// Format is what all formats of weights have. X is the storage type of the operands.
template <WeightType Type, class Storage, class LaneWords>
struct Format {
  using X = Storage;
  using Words = LaneWords;  // a lane's share of a k-step as it is stored
  static constexpr WeightType type = Type;
  static constexpr WeightFormat row = weight_format(Type);
  static constexpr bool matrix = row.matrix(), scaled = row.scale_bytes != 0, grouped = row.grouped();
  static constexpr u32 scale_words = row.scale_bytes / sizeof(Words);
  // k-steps that share scales, and what these have behind the k-steps of a part.
  static constexpr u32 group_steps = grouped ? row.group_cols / row.step_cols : 1;
  static constexpr u32 group_words = row.group_bytes / sizeof(Words);
  static_assert(sizeof(Words) == row.bytes_of(kLaneOperandBytes));
};

// unpack() gives a lane's A fragment of mma.m16n8k16, or its f32 weights. group_scales() gives the scales of
// rows g and g + 8, where lane = 4 g + t, from a group's scales.
struct WeightsF32 : Format<WeightType::kF32, F32, u32x4> {
  MK_INLINE static u32x4 unpack(Words words) { return words; }
};
struct WeightsF16 : Format<WeightType::kF16, F16, u32x4> {
  MK_INLINE static u32x4 unpack(Words words) { return words; }
};
struct WeightsBf16 : Format<WeightType::kBf16, Bf16, u32x4> {
  MK_INLINE static u32x4 unpack(Words words) { return words; }
};
template <WeightType Type>
struct WeightsE4m3Of : Format<Type, Bf16, u32x2> {
  MK_INLINE static u32x4 unpack(u32x2 words) {
    return {pair(words[0]), pair(words[0] >> 16), pair(words[1]), pair(words[1] >> 16)};
  }

 private:
  // f16 and bf16 hold every value of E4M3.
  MK_INLINE static u32 pair(u32 codes) {
    const u32 halves = mk_unpack_e4m3(codes);
    return Bf16::pack(F16::low(halves), F16::high(halves));
  }
};

using WeightsE4m3 = WeightsE4m3Of<WeightType::kE4m3>;
struct WeightsE4m3Block : WeightsE4m3Of<WeightType::kE4m3Block> {
  MK_INLINE static f32x2 group_scales(u32 lane, AS3 const Words* group) {
    AS3 const f32* scales = (AS3 const f32*)group;
    return {scales[lane / 4 / row.group_rows], scales[(lane / 4 + kStripRows / 2) / row.group_rows]};
  }
};

// Int4 has codes from 0 to 15, which stand for -8 to 7.
template <WeightType Type>
struct WeightsInt4Of : Format<Type, Bf16, u32> {
  MK_INLINE static u32x4 unpack(u32 words) {
    return {pair(words), pair(words >> 8), pair(words >> 4), pair(words >> 12)};
  }
  MK_INLINE static f32x2 group_scales(u32 lane, AS3 const u32* group) {
    AS3 const uint16_t* scales = (AS3 const uint16_t*)group + lane / 4;
    return {F16::low(scales[0]), F16::low(scales[kStripRows / 2])};
  }

 private:
  // The mantissa of bf16 128 takes a code as its lowest bits. Subtraction of 136 is exact.
  MK_INLINE static u32 pair(u32 codes) {
    constexpr u32 k128 = 0x43004300, kOne = 0x3f803f80, kMinus136 = 0xc308c308;
    return mk_fma_bf16x2((codes & 0x000f000fu) | k128, kOne, kMinus136);
  }
};
using WeightsInt4 = WeightsInt4Of<WeightType::kInt4>;
using WeightsInt4Group32 = WeightsInt4Of<WeightType::kInt4Group32>;

// MK_EACH_WEIGHT_FORMAT(M) is M(name, format) for each format. Bodies have the name as their suffix.
#define MK_EACH_WEIGHT_FORMAT(M) \
  M(f32, WeightsF32)             \
  M(f16, WeightsF16)             \
  M(bf16, WeightsBf16)           \
  M(e4m3, WeightsE4m3)           \
  M(e4m3_block, WeightsE4m3Block) M(int4, WeightsInt4) M(int4_group32, WeightsInt4Group32)

}  // namespace mk
