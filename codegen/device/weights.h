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
  static constexpr bool matrix = row.matrix(), scaled = row.scale_bytes != 0;
  static constexpr u32 scale_words = row.scale_bytes / sizeof(Words);
  static_assert(sizeof(Words) == row.bytes_of(kLaneOperandBytes));
};

// unpack() gives a lane's A fragment of mma.m16n8k16, or its f32 weights.
struct WeightsF32 : Format<WeightType::kF32, F32, u32x4> {
  MK_INLINE static u32x4 unpack(Words words) { return words; }
};
struct WeightsF16 : Format<WeightType::kF16, F16, u32x4> {
  MK_INLINE static u32x4 unpack(Words words) { return words; }
};
struct WeightsBf16 : Format<WeightType::kBf16, Bf16, u32x4> {
  MK_INLINE static u32x4 unpack(Words words) { return words; }
};
struct WeightsE4m3 : Format<WeightType::kE4m3, Bf16, u32x2> {
  MK_INLINE static u32x4 unpack(Words words) {
    return {pair(words[0]), pair(words[0] >> 16), pair(words[1]), pair(words[1] >> 16)};
  }

 private:
  // f16 and bf16 hold every value of E4M3.
  MK_INLINE static u32 pair(u32 codes) {
    const u32 halves = mk_unpack_e4m3(codes);
    return Bf16::pack(F16::low(halves), F16::high(halves));
  }
};

// MK_EACH_WEIGHT_FORMAT(M) is M(name, format) for each format. Bodies have the name as their suffix.
#define MK_EACH_WEIGHT_FORMAT(M) \
  M(f32, WeightsF32) M(f16, WeightsF16) M(bf16, WeightsBf16) M(e4m3, WeightsE4m3)

}  // namespace mk
