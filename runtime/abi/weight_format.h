// Weight formats: one row says what compiler, kernel and runtime need to know of how a weight is stored. A
// weight of any format is packed as runtime/abi/packing.h says.
#pragma once

#include <stdint.h>

#define MKRT_CONSTEXPR __attribute__((always_inline)) constexpr

namespace mkrt {

enum class WeightType : uint32_t { kF32, kF16, kBf16, kE4m3, kE4m3Block, kInt4, kInt4Group32 };
constexpr WeightType kWeightTypes[] = {WeightType::kF32,        WeightType::kF16,       WeightType::kBf16,
                                       WeightType::kE4m3,       WeightType::kE4m3Block, WeightType::kInt4,
                                       WeightType::kInt4Group32};

constexpr uint32_t kKSlices = 8;       // of a strip's columns (packing.h)
constexpr uint32_t kScaleBlock = 128;  // rows and columns of a checkpoint's block with a scale of its own

// The defaults are those of formats that matrix instructions multiply as 2-byte operands.
struct WeightFormat {
  const char* name;    // names of DType and Element
  const char* stored;  // type of the checkpoint's tensor (safetensors); several codes may share an element
  uint32_t bits;       // bits of a stored weight
  // The type that the weights are multiplied as, and that activations are rounded to. f32 is multiplied by
  // multiply-adds, 2-byte types by matrix instructions.
  WeightType operand;
  uint32_t operand_bits = 16;
  uint32_t tile_cols = 512;   // columns of a full tile
  uint32_t step_cols = 16;    // columns of a k-step
  uint32_t block_strips = 4;  // strips that products of few tokens multiply together
  uint32_t scale_bytes =
      0;  // bytes of the rows' f32 scales behind each K slice of a strip; 0: rows have none
  // The weight's name and one of these suffixes name its tensors. A checkpoint has scales of the first name,
  // or else of the second. Null: no such name.
  const char* scales = nullptr;
  const char* other_scales = nullptr;
  const char* codes = "";
  // Columns of a tile's part of a K slice share scales in groups. A group's scales take `group_bytes` bytes
  // for a strip. 0: no groups.
  uint32_t group_cols = 0, group_bytes = 0;
  uint32_t group_rows = 1;  // rows that share a scale of a group

  MKRT_CONSTEXPR bool matrix() const { return operand_bits == 16; }
  MKRT_CONSTEXPR bool grouped() const { return group_cols != 0; }
  MKRT_CONSTEXPR bool scaled() const { return scales != nullptr; }
  // bytes_of() is the bytes that some operands' worth of weights have in memory.
  MKRT_CONSTEXPR uint32_t bytes_of(uint32_t operand_bytes) const {
    return operand_bytes * bits / operand_bits;
  }
};

// col_quantum() is what columns are padded to a multiple of: a quarter of a full tile, or a group of columns
// in each K slice.
MKRT_CONSTEXPR uint32_t col_quantum(const WeightFormat& format) {
  const uint32_t quarter = format.tile_cols / 4, groups = kKSlices * format.group_cols;
  return quarter > groups ? quarter : groups;
}

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
              .block_strips = 1};
    case kF16:
      return {.name = "f16", .stored = "F16", .bits = 16, .operand = kF16};
    case kBf16:
      return {.name = "bf16", .stored = "BF16", .bits = 16, .operand = kBf16};
    case kE4m3:
      return {.name = "e4m3",
              .stored = "F8_E4M3",
              .bits = 8,
              .operand = kBf16,
              .scale_bytes = 64,
              .scales = "_scale",
              .other_scales = "_scale_inv"};
    case kE4m3Block:
      return {.name = "e4m3_block",
              .stored = "F8_E4M3",
              .bits = 8,
              .operand = kBf16,
              .scales = "_scale_inv",
              .other_scales = "_scale",
              .group_cols = 32,
              .group_bytes = 16,
              .group_rows = 4};
    case kInt4:
    case kInt4Group32:
      return {.name = type == kInt4 ? "int4" : "int4_group32",
              .stored = "I32",
              .bits = 4,
              .operand = kBf16,
              .scale_bytes = 64,
              .scales = "_scale",
              .codes = "_packed",
              .group_cols = type == kInt4 ? 64u : 32u,
              .group_bytes = 32};
  }
  return {};
}

}  // namespace mkrt
