// Weight formats: one row says what compiler, kernel and runtime need to know of how a weight is stored. A
// weight of any format is packed as runtime/abi/packing.h says.
#pragma once

#include <stdint.h>

#define MKRT_CONSTEXPR __attribute__((always_inline)) constexpr

namespace mkrt {

enum class WeightType : uint32_t { kF32, kF16, kBf16, kE4m3 };
constexpr WeightType kWeightTypes[] = {WeightType::kF32, WeightType::kF16, WeightType::kBf16,
                                       WeightType::kE4m3};

struct WeightFormat {
  const char* name;    // names of DType and Element
  const char* stored;  // type of the checkpoint's tensor (safetensors)
  uint32_t bits;       // bits of a stored weight
  // The type that the weights are multiplied as, and that activations are rounded to. f32 is multiplied by
  // multiply-adds, 2-byte types by matrix instructions.
  WeightType operand;
  uint32_t operand_bits;
  uint32_t tile_cols;     // columns of a full tile
  uint32_t step_cols;     // columns of a k-step
  uint32_t block_strips;  // strips that products of few tokens multiply together
  uint32_t scale_bytes;   // bytes of the rows' f32 scales behind each K slice of a strip; 0: no scales
  const char* scales;  // what the name of the tensor of scales has behind the weight's name; null: no scales

  MKRT_CONSTEXPR bool matrix() const { return operand_bits == 16; }
  // bytes_of() is the bytes that some operands' worth of weights have in memory.
  MKRT_CONSTEXPR uint32_t bytes_of(uint32_t operand_bytes) const {
    return operand_bytes * bits / operand_bits;
  }
};

// weight_format() is the row of a format.
MKRT_CONSTEXPR WeightFormat weight_format(WeightType type) {
  using enum WeightType;
  switch (type) {
    case kF32:
      return {.name = "f32",
              .stored = "F32",
              .bits = 32,
              .operand = kF32,
              .operand_bits = 32,
              .tile_cols = 256,
              .step_cols = 8,
              .block_strips = 1,
              .scale_bytes = 0,
              .scales = nullptr};
    case kF16:
      return {.name = "f16",
              .stored = "F16",
              .bits = 16,
              .operand = kF16,
              .operand_bits = 16,
              .tile_cols = 512,
              .step_cols = 16,
              .block_strips = 4,
              .scale_bytes = 0,
              .scales = nullptr};
    case kBf16:
      return {.name = "bf16",
              .stored = "BF16",
              .bits = 16,
              .operand = kBf16,
              .operand_bits = 16,
              .tile_cols = 512,
              .step_cols = 16,
              .block_strips = 4,
              .scale_bytes = 0,
              .scales = nullptr};
    case kE4m3:
      return {.name = "e4m3",
              .stored = "F8_E4M3",
              .bits = 8,
              .operand = kBf16,
              .operand_bits = 16,
              .tile_cols = 512,
              .step_cols = 16,
              .block_strips = 4,
              .scale_bytes = 64,
              .scales = "_scale"};
  }
  return {};
}

}  // namespace mkrt
