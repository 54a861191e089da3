#include "scheduler/work/variant.h"

#include <algorithm>

#include "ir/ceil.h"
#include "ir/tasks.h"
#include "runtime/abi/abi.h"
#include "scheduler/work/loop_slots.h"

namespace mkc {
namespace {

// Tokens times strips whose epilogues take reduce_ns. The estimate is about 40 instructions for each of their
// rows.
constexpr int64_t kEpilogueElements = 128;

// Mma64Warps says how the warps of Mma64 divide `strips` strips and the tokens of a pass. Each group of warps
// has the same `of_warp` tokens, and `strip_warps` of its warps have strips.
struct Mma64Warps {
  uint32_t strips, of_warp, groups, strip_warps;
  Mma64Warps(int64_t tokens, uint32_t block_strips, bool wide) : strips(block_strips) {
    const auto pass = static_cast<uint32_t>(std::min<int64_t>(tokens, mkrt::kMma64Tokens));
    of_warp = mkrt::mma64_warp_tokens(wide, pass, strips);
    groups = mkrt::warp_groups(pass, of_warp);
    strip_warps = std::min(mkrt::kConsumerWarps / groups, strips);
  }
  // Returns the strips of the warp that has most of them.
  uint32_t of_busiest() const { return static_cast<uint32_t>(ceil_of(strips, strip_warps)); }
  // Returns the slots that a worker issues for each strip. A warp issues `slots` for a strip of its own, and
  // `part` for the copies of a part. A scheduler of an SM issues for two of the eight warps, and the one that
  // issues most counts.
  double issued(double slots, double part) const {
    constexpr uint32_t schedulers = 4;
    const auto busy =
        static_cast<double>(of_busiest() * ceil_of(groups * strip_warps, schedulers) * schedulers);
    return (slots * busy + part * mkrt::kConsumerWarps) / strips;
  }
};

// Each group of warps that have the same tokens multiplies a block's tile slices and reads them from shared
// memory. Weights lie there as they are stored. Activations are written to shared memory once. Each warp of a
// group reads them once, or for each strip where the format has groups. The copies use the bandwidth of
// shared memory, too. Fp8: activations are 8-bit floats.
Variant mma64(const Machine& m, int64_t tokens, mkrt::WeightType type, const Mma64Warps& of, bool fp8) {
  constexpr uint32_t warps = mkrt::kConsumerWarps, slice_bytes = mkrt::kStageBytes / mkrt::kKSlices;
  const mkrt::WeightFormat format = mkrt::weight_format(type);
  const uint32_t strips = of.strips;
  const int64_t pass = std::min<int64_t>(tokens, mkrt::kMma64Tokens);
  const double x_bytes = static_cast<double>(pass * slice_bytes / kTileRows) / (fp8 ? 2 : 1);
  const double shared_bytes = strips * format.bytes_of(slice_bytes) * (of.groups + 1.0) +
                              x_bytes * ((fp8 || !format.grouped() ? of.strip_warps : strips) + 1.0);
  const double shared_ns = shared_bytes / m.shared_bytes_per_ns;
  const double mma_per_ns = fp8 ? m.mma_fp8_per_ns : m.mma_per_ns;
  const double mma_ns = strips * slice_bytes / 2 * of.groups * static_cast<double>(of.of_warp) /
                        (mma_per_ns * of.groups * of.strip_warps / warps);
  Variant v{mkrt::kMma64Tokens,
            strips * slice_bytes / std::max(shared_ns, mma_ns),
            static_cast<double>(pass),
            m.activations_ns,
            strips,
            slice_bytes};
  v.min_ns = m.l2_ns;
  v.barrier_ns = m.barrier_ns;
  v.epilogues = static_cast<uint32_t>(ceil_of(strips * pass, kEpilogueElements));
  return v;
}

// Returns the time of a slot, which follows from mma8_bytes_per_ns.
double slot_ns(const Machine& m) {
  return mkrt::kStageBytes / m.mma8_bytes_per_ns / (kMma8Slots * mkrt::kConsumerWarps);
}

// Bounds the rate of operands by the issue slots of a variant, 0 for none. `warps` of a worker issue `slots`
// each for 16 rows and `bytes` of operands.
void bound_by_issue(const Machine& m, double slots, double warps, double bytes, Variant& v) {
  if (slots == 0) return;
  v.bytes_per_ns = std::min(v.bytes_per_ns, bytes / (slots * warps * slot_ns(m)));
}

// Returns Mma64 with weights that are unpacked, or with others.
Variant mma64_unpacked(const Machine& m, int64_t tokens, mkrt::WeightType type, uint32_t strips,
                       bool expert) {
  const Mma64Warps of(tokens, strips, mkrt::has_wide_warps(type, mkrt::mma64_strips(m.warpgroups), expert));
  Variant v = mma64(m, tokens, type, of, false);
  const LoopSlots slots = loop_slots(type);
  const double of_strip = of.of_warp == mkrt::kWarpTokens ? slots.mma64_wide : slots.mma64;
  bound_by_issue(m, of.issued(of_strip, slots.mma64_tile_slice), 1, v.x_bytes, v);
  v.counts_activations = slots.mma64_tile_slice != 0;
  return v;
}

// Returns Mma64 with activations of 8-bit floats. The slots that all strips of a warp share are divided among
// them.
Variant mma64_fp8(const Machine& m, int64_t tokens, mkrt::WeightType type, uint32_t strips) {
  const Mma64Warps of(tokens, strips, false);
  Variant v = mma64(m, tokens, type, of, true);
  const Fp8Slots slots = fp8_slots(type);
  bound_by_issue(m, of.issued(slots.strip + slots.tile_slice / of.of_busiest(), 0), 1, v.x_bytes, v);
  return v;
}

// Formats with groups take up to 16 tokens strip by strip. A tile's activations are loaded while the last
// strip of the tile before is multiplied. Strips reach the epilogue one after the other.
Variant mma16_groups(const Machine& m, double slots, uint32_t strips) {
  Variant v{mkrt::kMma16Tokens, m.mma16_bytes_per_ns, mkrt::kMma16Tokens, m.activations_ns, strips};
  v.min_ns = m.l2_ns;
  v.epilogues = strips;
  bound_by_issue(m, slots, mkrt::kConsumerWarps, mkrt::kStageBytes, v);
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

// Returns the tokens of a pass of warpgroups.
uint32_t pass_tokens(const TaskProgram& program, const TaskGrid& grid) {
  return mkrt::wgmma_tokens(static_cast<uint32_t>(max_multiplied_rows(program, grid)));
}

// Warpgroups multiply, `pass` tokens at a time. The consumers load activations once for the strips of a
// block. Each warp unpacks one strip in `slots` before its warpgroup multiplies.
Variant wgmma128(const Machine& m, int64_t tokens, uint32_t strips, uint32_t pass, double slots) {
  const double rows = static_cast<double>(std::min<int64_t>(tokens, mkrt::kWgmmaTokens));
  const double share = static_cast<double>(pass) / mkrt::kWgmmaTokens;
  return {mkrt::kWgmmaTokens,
          1 / (share / m.wgmma_bytes_per_ns + slots * mkrt::kConsumerWarps * slot_ns(m) / mkrt::kStageBytes),
          rows,
          m.activations_ns,
          strips,
          mkrt::kStageBytes / mkrt::kKSlices};
}

// Returns Wgmma128 with codes. Matrix instructions of 8-bit floats have twice the rate of bf16 (NVIDIA H100
// white paper). Both warpgroups have to issue their slots, whoever multiplies meanwhile.
Variant wgmma128_codes(const Machine& m, int64_t tokens, mkrt::WeightType type, uint32_t strips,
                       uint32_t pass) {
  Variant v = wgmma128(m, tokens, strips, pass, 0);
  v.bytes_per_ns *= 2;
  bound_by_issue(m, codes_slots(type, pass), mkrt::kConsumerWarps, mkrt::kStageBytes, v);
  return v;
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
  const uint32_t from = fp8_from(program, grid);
  if (from != 0 && tokens >= int64_t{from}) return mma64_fp8(m, tokens, type, strips);
  const LoopSlots slots = loop_slots(type);
  switch (variant) {
    case mkrt::ProductVariant::kFma:
      if (tokens > 1) return {mkrt::kFmaTokens, m.fma16_bytes_per_ns, rows, 0, strips};
      [[fallthrough]];
    case mkrt::ProductVariant::kMma8: {
      Variant v{mkrt::kMma8Tokens, m.mma8_bytes_per_ns, rows, m.activations_ns, strips};
      bound_by_issue(m, slots.mma8, mkrt::kConsumerWarps, mkrt::kStageBytes, v);
      return v;
    }
    case mkrt::ProductVariant::kMma32: {
      if (mkrt::weight_format(type).grouped()) return mma16_groups(m, slots.mma16, strips);
      Variant v = mma32(m, tokens, strips);
      bound_by_issue(m, tokens <= mkrt::kMma32Tokens / 2 ? slots.mma16 : slots.mma32, mkrt::kConsumerWarps,
                     mkrt::kStageBytes, v);
      return v;
    }
    case mkrt::ProductVariant::kMma64:
      return mma64_unpacked(m, tokens, type, strips, grid.body == BodyKind::kExpert);
    case mkrt::ProductVariant::kWgmma128: {
      const uint32_t pass = pass_tokens(program, grid);
      return reads_codes(grid) ? wgmma128_codes(m, tokens, type, strips, pass)
                               : wgmma128(m, tokens, strips, pass, slots.wgmma);
    }
  }
  MKC_BUG("a product of no variant");
}

}  // namespace mkc
