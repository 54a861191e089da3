// Weight formats: one row says what compiler, kernel and runtime need to know of how a weight is stored. A
// weight of any format is packed as runtime/abi/packing.h says.
#pragma once

#include <stdint.h>

#define MKRT_CONSTEXPR __attribute__((always_inline)) constexpr

namespace mkrt {

// MKRT_EACH_WEIGHT_TYPE(M) is M(name, enumerator) for each format.
// clang-format off: its result for this list differs from run to run.
#define MKRT_EACH_WEIGHT_TYPE(M)         \
  M(f32, kF32)                           \
  M(f16, kF16)                           \
  M(bf16, kBf16)                         \
  M(e4m3, kE4m3)                         \
  M(e4m3_block, kE4m3Block)              \
  M(int4, kInt4)                         \
  M(int4_group32, kInt4Group32)          \
  M(int4_zero, kInt4Zero)                \
  M(int4_zero_group32, kInt4ZeroGroup32) \
  M(int8, kInt8)                         \
  M(int8_group32, kInt8Group32)          \
  M(mxfp4, kMxfp4)                       \
  M(nvfp4, kNvfp4)
// clang-format on

#define MKRT_ENUMERATOR(name, enumerator) enumerator,
enum class WeightType : uint32_t { MKRT_EACH_WEIGHT_TYPE(MKRT_ENUMERATOR) };
#define MKRT_TYPE(name, enumerator) WeightType::enumerator,
constexpr WeightType kWeightTypes[] = {MKRT_EACH_WEIGHT_TYPE(MKRT_TYPE)};
#undef MKRT_TYPE

// CodeType is what the bits of a stored weight are.
enum class CodeType : uint32_t {
  kFloat,    // a number of the format's own float type
  kInteger,  // an integer from 0 on. A zero point is subtracted from it.
  kE2m1,     // 0, 0.5, 1, 1.5, 2, 3, 4, 6, and these with a sign (OCP Microscaling Formats 1.0)
};
// ScaleType is the type of the scales of groups. E8M0 is a power of 2 (OCP Microscaling Formats 1.0).
enum class ScaleType : uint32_t { kF32, kF16, kE4m3, kE8m0 };

constexpr uint32_t kKSlices = 8;       // of a strip's columns (packing.h)
constexpr uint32_t kScaleBlock = 128;  // rows and columns of a checkpoint's block with a scale of its own

// scale_size() is the bytes of a scale.
MKRT_CONSTEXPR uint32_t scale_size(ScaleType type) {
  return type == ScaleType::kF32 ? 4 : type == ScaleType::kF16 ? 2 : 1;
}

constexpr uint32_t kStripRows = 16;
constexpr uint32_t kTileCols = 512;  // of a full tile. One of codes of 4 bits has twice as many.

// The defaults are those of formats that matrix instructions multiply as 2-byte operands.
struct WeightFormat {
  const char* name;  // of DType and Element
  uint32_t bits;     // of a stored weight
  CodeType code = CodeType::kFloat;
  const char* stored = nullptr;  // type of the checkpoint's tensor (safetensors); null: formats of codes
  // The type that the weights are multiplied as, and that activations are rounded to. f32 is multiplied by
  // multiply-adds, 2-byte types by matrix instructions.
  WeightType operand = WeightType::kBf16;
  uint32_t operand_bits = 16;
  uint32_t tile_cols = kTileCols;  // columns of a full tile
  uint32_t step_cols = 16;         // columns of a k-step
  uint32_t block_strips = 4;       // strips that products of few tokens multiply together
  uint32_t scale_bytes = 0;  // of the rows' f32 scales behind each K slice of a strip; 0: rows have none
  // Columns of a tile slice share scales in groups. 0: no groups.
  uint32_t group_cols = 0;
  uint32_t group_rows = 1;  // rows that share a scale of a group
  ScaleType group_scale = ScaleType::kF16;
  bool zeros = false;  // each row of a group has a zero point, an integer of 8 bits

  MKRT_CONSTEXPR bool matrix() const { return operand_bits == 16; }
  // e4m3() tells whether codes are E4M3, which matrix instructions of sm_89 take as they are.
  MKRT_CONSTEXPR bool e4m3() const { return bits == 8 && code == CodeType::kFloat; }
  MKRT_CONSTEXPR bool grouped() const { return group_cols != 0; }
  MKRT_CONSTEXPR bool coded() const { return stored == nullptr; }
  // bytes_of() is the bytes that some operands' worth of weights have in memory.
  MKRT_CONSTEXPR uint32_t bytes_of(uint32_t operand_bytes) const {
    return operand_bytes * bits / operand_bits;
  }
  // zeros_at() is where the zero points of a strip lie behind the scales of a group.
  MKRT_CONSTEXPR uint32_t zeros_at() const { return kStripRows / group_rows * scale_size(group_scale); }
  // group_bytes() is the bytes of the scales and zero points of a group of a strip.
  MKRT_CONSTEXPR uint32_t group_bytes() const {
    return grouped() ? zeros_at() + (zeros ? kStripRows : 0) : 0;
  }
};

// col_quantum() is what columns are padded to a multiple of: a k-step or a group of columns in each K slice.
MKRT_CONSTEXPR uint32_t col_quantum(const WeightFormat& format) {
  return kKSlices * (format.grouped() ? format.group_cols : format.step_cols);
}

// integer_format() is a format of integers whose groups have `group_cols` columns. Their scales are f16, and
// powers of 2 for rows.
MKRT_CONSTEXPR WeightFormat integer_format(const char* name, uint32_t bits, uint32_t group_cols, bool zeros) {
  return {.name = name,
          .bits = bits,
          .code = CodeType::kInteger,
          .tile_cols = bits == 4 ? 2 * kTileCols : kTileCols,
          .scale_bytes = 64,
          .group_cols = group_cols,
          .zeros = zeros};
}

// weight_format() is the row of a format.
MKRT_CONSTEXPR WeightFormat weight_format(WeightType type) {
  using enum WeightType;
  switch (type) {
    case kF32:
      return {.name = "f32",
              .bits = 32,
              .stored = "F32",
              .operand = kF32,
              .operand_bits = 32,
              .tile_cols = 256,
              .step_cols = 8,
              .block_strips = 1};
    case kF16:
      return {.name = "f16", .bits = 16, .stored = "F16", .operand = kF16};
    case kBf16:
      return {.name = "bf16", .bits = 16, .stored = "BF16"};
    case kE4m3:
      return {.name = "e4m3", .bits = 8, .scale_bytes = 64};
    case kE4m3Block:
      return {
          .name = "e4m3_block", .bits = 8, .group_cols = 32, .group_rows = 4, .group_scale = ScaleType::kF32};
    case kInt4:
      return integer_format("int4", 4, 64, false);
    case kInt4Group32:
      return integer_format("int4_group32", 4, 32, false);
    case kInt4Zero:
      return integer_format("int4_zero", 4, 64, true);
    case kInt4ZeroGroup32:
      return integer_format("int4_zero_group32", 4, 32, true);
    case kInt8:
      return integer_format("int8", 8, 64, true);
    case kInt8Group32:
      return integer_format("int8_group32", 8, 32, true);
    case kMxfp4:
      return {.name = "mxfp4",
              .bits = 4,
              .code = CodeType::kE2m1,
              .tile_cols = 2 * kTileCols,
              .group_cols = 32,
              .group_scale = ScaleType::kE8m0};
    case kNvfp4:
      return {.name = "nvfp4",
              .bits = 4,
              .code = CodeType::kE2m1,
              .tile_cols = 2 * kTileCols,
              .scale_bytes = 64,
              .group_cols = 16,
              .group_scale = ScaleType::kE4m3};
  }
  return {};
}

}  // namespace mkrt
