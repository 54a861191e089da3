// The products' loops take issue slots that depend on the format of weights. This header is internal to
// scheduler/work.
#pragma once

#include "runtime/abi/weight_format.h"

namespace mkc {

// LoopSlots counts what a warp issues for 16 rows and 64 columns of weights. `mma16` is Mma32 with up to 16
// tokens, `mma32` with more. `mma64` is for a warp of 16 tokens, and `mma64_wide` for one of 32. Each warp
// also issues `mma64_tile_slice` for 64 columns of a block, whatever strips it has. `wgmma` is what Wgmma128
// issues more than with weights of bf16. An instruction that converts packed floats takes two slots (CUDA
// programming guide, throughput of conversions). tools/bench/loops --formats counts them in the machine code
// for sm_90a.
struct LoopSlots {
  double mma8 = 0, mma16 = 0, mma32 = 0, mma64 = 0, wgmma = 0, mma64_wide = 0, mma64_tile_slice = 0;
};
// mma8_bytes_per_ns of a machine stands for this number of slots.
constexpr double kMma8Slots = 55;

// Returns the slots of a format that is unpacked. Others have none: their rates are figures of the machine.
constexpr LoopSlots loop_slots(mkrt::WeightType type) {
  using enum mkrt::WeightType;
  switch (type) {
    case kF32:
    case kF16:
    case kBf16:
      return {};
    case kE4m3:
      return {164, 151, 190, 169, 116};
    // Every second tile slice of Wgmma128 has another scale.
    case kE4m3Block:
      return {172, 195, 0, 175, 172, 212, 55};
    case kInt4:
      return {105, 122, 0, 110, 0, 144, 52};
    case kInt4Group32:
      return {121, 142, 0, 141, 0, 180, 53};
    case kInt4Zero:
      return {112, 130, 0, 117, 0, 151, 52};
    case kInt4ZeroGroup32:
      return {135, 158, 0, 156, 0, 195, 53};
    case kInt8:
      return {192, 210, 0, 178, 0, 211, 70};
    case kInt8Group32:
      return {214, 238, 0, 218, 0, 257, 71};
    case kMxfp4:
      return {134, 156, 0, 167, 0, 204, 53};
    case kNvfp4:
      return {201, 234, 0, 242, 0, 317, 56};
  }
  return {};
}

// Fp8Slots counts what a warp issues in Mma64 for 64 columns of activations of 8-bit floats. `strip` is for
// 16 rows of weights, `tile_slice` for the columns of a tile slice that its strips share.
struct Fp8Slots {
  double strip = 0, tile_slice = 0;
};

// Returns the slots of weights of E4M3. They are counted from machine code for sm_89 (ptxas 13.0;
// docs/decisions/081-fp8-activations.md), and packed conversions count twice.
constexpr Fp8Slots fp8_slots(mkrt::WeightType type) {
  return mkrt::weight_format(type).grouped() ? Fp8Slots{58, 196} : Fp8Slots{30, 196};
}

// Returns what a warp issues in Wgmma128 for 16 rows and 64 columns of weights of E4M3, whose activations are
// codes. A pass has 64 tokens or 128.
constexpr double codes_slots(mkrt::WeightType type, uint32_t pass_tokens) {
  const bool half = pass_tokens < mkrt::kWgmmaTokens;
  if (mkrt::weight_format(type).grouped()) return half ? 155 : 213;
  return half ? 128 : 154;
}

}  // namespace mkc
