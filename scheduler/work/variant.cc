#include "scheduler/work/variant.h"

#include <algorithm>

#include "ir/tasks.h"
#include "runtime/abi/abi.h"
#include "scheduler/machine/ceil.h"

namespace mkc {
namespace {

// Tokens times strips whose epilogues take reduce_ns. Estimate: about 40 instructions for each of their rows.
constexpr int64_t kEpilogueElements = 128;

// The instructions of a warp for a K slice's part of a tile, 64 columns, by Mma64 with weights of E4M3. They
// are counted from machine code for sm_89 (ptxas 13.0, 2026-11-25; docs/decisions/081-fp8-activations.md).
struct PartCode {
  double strip, part;  // of each of the warp's strips, and of all
};
constexpr PartCode kBf16Rows{103, 129}, kBf16Block{147, 92}, kFp8Rows{30, 188}, kFp8Block{58, 188};
PartCode part_code(const mkrt::WeightFormat& format, bool fp8) {
  if (!format.e4m3()) return {0, 0};  // not counted
  if (fp8) return format.grouped() ? kFp8Block : kFp8Rows;
  return format.grouped() ? kBf16Block : kBf16Rows;
}

// Many tokens are multiplied with 16 tokens per warp. Each group of warps that have the same tokens
// multiplies a block's part of a tile and reads it from shared memory. Activations are written to shared
// memory once, and each warp of a group reads them. The copies use the bandwidth of shared memory, too.
// Four warps issue an instruction each clock.
Variant mma64(const Machine& m, int64_t tokens, uint32_t strips, const mkrt::WeightFormat& format, bool fp8) {
  constexpr uint32_t warps = mkrt::kConsumerWarps, part = mkrt::kStageBytes / mkrt::kKSlices;
  const int64_t pass = std::min<int64_t>(tokens, mkrt::kMma64Tokens);
  const uint32_t groups = mkrt::warp_groups(static_cast<uint32_t>(pass)),
                 strip_warps = std::min(warps / groups, strips);
  const double x_bytes = static_cast<double>(pass * part / kTileRows) / (fp8 ? 2 : 1);
  const double shared_bytes = format.bytes_of(strips * part) * (groups + 1.0) + x_bytes * (strip_warps + 1.0);
  const double shared_ns = shared_bytes / m.shared_bytes_per_ns;
  const double mma_per_ns = fp8 ? m.mma_fp8_per_ns : m.mma_per_ns;
  const double mma_ns =
      strips * part / 2 * groups * double{mkrt::kWarpTokens} / (mma_per_ns * groups * strip_warps / warps);
  const PartCode code = part_code(format, fp8);
  const double strips_of_warp = static_cast<double>(ceil_of(strips, strip_warps));
  const double code_ns = (strips_of_warp * code.strip + code.part) * warps / 4 / m.clock_mhz * 1000;
  Variant v{mkrt::kMma64Tokens,
            strips * part / std::max({shared_ns, mma_ns, code_ns}),
            static_cast<double>(pass),
            m.activations_ns,
            strips,
            part};
  v.min_ns = m.l2_ns;
  v.barrier_ns = m.barrier_ns;
  v.epilogues = static_cast<uint32_t>(ceil_of(strips * pass, kEpilogueElements));
  return v;
}

// One or two of a tile's four loads of activations are in flight with this number of tokens.
Variant mma32(const Machine& m, int64_t tokens, uint32_t strips) {
  const bool half = tokens <= mkrt::kMma32Tokens / 2;
  const auto rows = static_cast<double>(ceil_of(tokens, mkrt::kMma8Tokens) * mkrt::kMma8Tokens);
  const double rate = half ? m.mma16_bytes_per_ns : 2 * m.mma_per_ns / mkrt::kMma32Tokens;
  Variant v{mkrt::kMma32Tokens, rate, rows, m.activations_ns, strips};
  v.min_ns = (half ? 2 : 4) * m.l2_ns;
  v.epilogues = strips;
  return v;
}

// Warpgroups multiply. The consumers load activations once for the strips of a block.
Variant wgmma128(const Machine& m, int64_t tokens, uint32_t strips) {
  const double rows = static_cast<double>(std::min<int64_t>(tokens, mkrt::kWgmmaTokens));
  return {mkrt::kWgmmaTokens,
          m.wgmma_bytes_per_ns,
          rows,
          m.activations_ns,
          strips,
          mkrt::kStageBytes / mkrt::kKSlices};
}

}  // namespace

void share_k_slices(Variant& variant, uint32_t parts, uint32_t strips) {
  const uint32_t stages = (strips + parts - 1) / parts;
  variant.bytes_per_ns *= static_cast<double>(strips) / (stages * parts);
  variant.activations_ns *= parts;
}

void to_stored_bytes(Variant& variant, const mkrt::WeightFormat& format) {
  variant.bytes_per_ns *= static_cast<double>(format.bits) / format.operand_bits;
  variant.x_bytes = format.bytes_of(variant.x_bytes);
}

Variant variant_of(const Machine& m, const TaskProgram& program, const TaskGrid& grid, int64_t tokens,
                   mkrt::WeightType type, uint32_t strips) {
  const bool warpgroups = m.warpgroups && grid.body != BodyKind::kExpert && split_k(grid) == 1;
  const mkrt::ProductVariant variant = mkrt::product_variant(
      static_cast<uint32_t>(tokens), type, grid.body == BodyKind::kExpert ? mkrt::kExpert : strips,
      warpgroups ? wgmma_from(program, grid) : 0);
  const double rows = static_cast<double>(std::min<int64_t>(tokens, mkrt::kFmaTokens));
  const mkrt::WeightFormat format = mkrt::weight_format(type);
  const uint32_t from = fp8_from(program, grid);
  const bool fp8 = from != 0 && tokens >= int64_t{from};
  if (fp8) return mma64(m, tokens, strips, format, fp8);
  switch (variant) {
    case mkrt::ProductVariant::kFma:
      if (tokens > 1) return {mkrt::kFmaTokens, m.fma16_bytes_per_ns, rows, 0, strips};
      [[fallthrough]];
    case mkrt::ProductVariant::kMma8:
      return {mkrt::kMma8Tokens, m.mma8_bytes_per_ns, rows, m.activations_ns, strips};
    case mkrt::ProductVariant::kMma32:
      return mma32(m, tokens, strips);
    case mkrt::ProductVariant::kMma64:
      return mma64(m, tokens, strips, format, fp8);
    case mkrt::ProductVariant::kWgmma128:
      return wgmma128(m, tokens, strips);
  }
  MKC_BUG("a product of no variant");
}

}  // namespace mkc
