// The packed weight layout: one layout for every number of tokens, made once at load.
//
// A packed weight is a sequence of strips of kStripRows rows. A strip is a sequence of tiles. A tile is what
// one bulk copy brings into one ring stage. Every tile spans kStripRows rows and `tile_cols` columns. The
// last tile of a strip may be narrower (a multiple of `col_quantum`). Columns and rows past the weight's are
// zero.
//
// A strip's columns are kKSlices K slices of equal length. Every tile has the next columns of each K slice, K
// slice by K slice, in k-steps of 16 columns (matrix instructions) or 8 (f32). Products sum each K slice in
// the order of its columns, and then add the K slices in order. This order does not depend on which warp
// multiplies what when. Wgmma128 alone keeps one running sum over all K slices.
//
// A k-step is an operand of 512 bytes, stored in WeightFormat::bits. Lane l = 4*g + t holds a 32nd of it:
//   matrix: (row g, cols 4t, 4t+1) (row g+8, same cols) (row g, cols 4t+2, 4t+3) (row g+8, same cols)
//   f32:    (row g, cols 2t, 2t+1) (row g+8, same cols)
// The matrix form is the A operand of mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"). One
// read per lane fetches it, free of bank conflicts. Columns 4t+2 and 4t+3 take the place of 2t+8 and 2t+9 of
// the operand, and 4t that of 2t. A sum may run over columns in any order. The columns that a lane needs of
// the other operand are contiguous in this order. Tile bytes are [k_slice][k-step][lane].
//
// A format with groups of columns has the groups' scales behind the k-steps of each tile slice: a K slice's
// columns of one tile.
// A format with a scale for each row has the strip's 16 f32 scales behind each K slice of the last tile. So
// whoever multiplies a K slice has its scales in the same stage.
#pragma once

#include "runtime/abi/weight_format.h"

namespace mkrt {

// An activation function. A product of pairs of rows has one as its gate. Rows 0 to 7 of its strips are gate
// rows g, rows 8 to 15 up rows u, and results are gate(g) * u. A gate of kNone means that rows are results.
//
// kSwigluOai is the gate of gpt-oss. With g' = min(g, 7) and u' = min(max(u, -7), 7), results are
// g' * sigmoid(1.702 g') * (u' + 1).
enum class Activation : uint32_t { kNone, kSilu, kGelu, kGeluTanh, kSigmoid, kSwigluOai };
constexpr Activation kLastActivation = Activation::kSwigluOai;
constexpr uint32_t kStageBytes = 16384;     // room for a full tile of any format and its scales
constexpr uint32_t kLaneOperandBytes = 16;  // of a k-step, unpacked

// A product multiplies blocks of strips with groups of tokens. A block loads its activations once. A block's
// strips pass through the ring once for each group of tokens.
//
// kFma: f32 weights, by multiply-adds. Each consumer warp has one K slice. A pass brings a block tile by
// tile, and each tile strip by strip.
//
// kMma8: matrix instructions, and the tokens of one matrix instruction. Work and order of bytes are those of
// kFma.
//
// kMma32: a warp has one K slice of all strips of the block at once. Order of bytes is that of kFma.
//
// kMma64: each warp has 16 or 32 tokens and some of a block's strips. A pass goes K slice by K slice. A stage
// holds the tile slices of one K slice, of all strips one after the other. Where strips are few, a stage
// holds those of the next tiles too.
//
// kWgmma128: warpgroups multiply. A stage holds one tile slice of each strip. The loader leaves the stage
// behind each such stage empty, for the consumers' activations.
enum class ProductVariant : uint32_t { kFma, kMma8, kMma32, kMma64, kWgmma128 };

constexpr uint32_t kFmaTokens = 16;     // of a group of kFma
constexpr uint32_t kMma8Tokens = 8;     // of one matrix instruction, and most of kMma8
constexpr uint32_t kMma16Tokens = 16;   // most tokens for which kMma32 has registers for a block of any size
constexpr uint32_t kMma32Tokens = 32;   // most of kMma32, then in blocks of kMma32Strips
constexpr uint32_t kMma64Tokens = 64;   // of a group of kMma64
constexpr uint32_t kWgmmaTokens = 128;  // of a group of kWgmma128
constexpr uint32_t kBlockStrips = 4;    // most of a block of any number of tokens
constexpr uint32_t kMma64Strips = 8;    // of a block of kMma64 where its sums fit the registers
constexpr uint32_t kMma32Strips = 2;    // most strips of a block of kMma32 beyond kMma16Tokens
constexpr uint32_t kExpert = ~0u;       // in place of strips: an expert's rows, which go by kMma8 or kMma64

// by_warpgroups() tells whether kWgmma128 multiplies weights of a format. Sums of groups need registers,
// except where 64 columns have one scale.
MKRT_CONSTEXPR bool by_warpgroups(const WeightFormat& format) {
  return format.matrix() && (!format.grouped() || format.e4m3());
}
// wgmma_cols() is what columns have to be a multiple of for kWgmma128. K slices with groups consist of full
// tile slices, so that none has columns of two of a checkpoint's blocks.
constexpr uint32_t wgmma_cols(const WeightFormat& format) {
  return format.grouped() ? format.tile_cols : 8;
}
static_assert(kScaleBlock % (kTileCols / kKSlices) == 0);

// The variant that multiplies `tokens` tokens with a block of `strips` strips. `wgmma_from`: the tokens from
// which on warpgroups multiply; 0 where they never do, as in a product that is split.
__attribute__((always_inline)) constexpr ProductVariant product_variant(uint32_t tokens, WeightType type,
                                                                        uint32_t strips,
                                                                        uint32_t wgmma_from) {
  if (!weight_format(type).matrix()) return ProductVariant::kFma;
  if (tokens <= kMma8Tokens) return ProductVariant::kMma8;
  // Sums of more tokens and a second set for a group have no registers.
  const uint32_t max = weight_format(type).grouped() || strips > kMma32Strips ? kMma16Tokens : kMma32Tokens;
  if (strips != kExpert && tokens <= max) return ProductVariant::kMma32;
  return by_warpgroups(weight_format(type)) && wgmma_from != 0 && tokens >= wgmma_from
             ? ProductVariant::kWgmma128
             : ProductVariant::kMma64;
}
// Tokens of a group: each group is one pass of a block's strips through the ring.
__attribute__((always_inline)) constexpr uint32_t group_tokens(ProductVariant variant) {
  switch (variant) {
    case ProductVariant::kFma:
      return kFmaTokens;
    case ProductVariant::kMma8:
      return kMma8Tokens;
    case ProductVariant::kMma32:
      return kMma32Tokens;
    case ProductVariant::kMma64:
      return kMma64Tokens;
    case ProductVariant::kWgmma128:
      return kWgmmaTokens;
  }
  return kFmaTokens;
}
// Tokens that one pass of kWgmma128 multiplies, in a kernel whose products have at most `max_tokens` rows.
__attribute__((always_inline)) constexpr uint32_t wgmma_tokens(uint32_t max_tokens) {
  return max_tokens <= kWgmmaTokens / 2 ? kWgmmaTokens / 2 : kWgmmaTokens;
}
// Strips of a block of kMma64 and kWgmma128.
__attribute__((always_inline)) constexpr uint32_t mma64_strips(bool warpgroups) {
  return warpgroups ? kMma64Strips : kBlockStrips;
}
// Up to kSameStreamTokens tokens, weights pass through the ring alike. They pass once, by tiles, in blocks of
// one size.
constexpr uint32_t kSameStreamTokens = kMma16Tokens;
// Most strips of a block of a product that is no expert's. `mma64`: mma64_strips() of the target.
__attribute__((always_inline)) constexpr uint32_t block_strips(uint32_t tokens, WeightType type,
                                                               uint32_t mma64) {
  const WeightFormat format = weight_format(type);
  return format.matrix() && tokens > kSameStreamTokens ? mma64 : format.block_strips;
}
constexpr bool stream_is_the_same() {
  for (const WeightType type : kWeightTypes)
    for (uint32_t tokens = 1; tokens <= kSameStreamTokens; ++tokens)
      for (uint32_t strips = 1; strips <= kMma64Strips; ++strips) {
        const ProductVariant variant = product_variant(tokens, type, strips, 0);
        if (variant >= ProductVariant::kMma64 || group_tokens(variant) < tokens ||
            block_strips(tokens, type, kMma64Strips) != block_strips(1, type, kMma64Strips))
          return false;
      }
  return true;
}
static_assert(stream_is_the_same());
// kSumTokens is the tokens whose sums of a strip belong together in Mma64. kWarpTokens is the most tokens of
// a consumer warp.
constexpr uint32_t kSumTokens = 16;
constexpr uint32_t kWarpTokens = 32;
// has_wide_warps() tells whether warps of Mma64 may have kWarpTokens. Formats with groups take longest to
// unpack. Only blocks of kMma64Strips have strips for all warps then. Experts have smaller blocks.
MKRT_CONSTEXPR bool has_wide_warps(WeightType type, uint32_t mma64, bool expert) {
  return weight_format(type).grouped() && mma64 == kMma64Strips && !expert;
}
// mma64_warp_tokens() is the tokens of a warp. One or two warps of kWarpTokens would leave some of an SM's
// four schedulers without work.
MKRT_CONSTEXPR uint32_t mma64_warp_tokens(bool wide, uint32_t tokens, uint32_t strips) {
  return wide && (tokens + kWarpTokens - 1) / kWarpTokens * strips > 2 ? kWarpTokens : kSumTokens;
}
// warp_groups() is how many groups of `of_warp` tokens the warps of Mma64 are divided among.
MKRT_CONSTEXPR uint32_t warp_groups(uint32_t tokens, uint32_t of_warp) {
  return tokens <= of_warp ? 1 : tokens <= 2 * of_warp ? 2 : 4;
}
// mma64_tiles() is how many tile slices of each strip a stage of Mma64 has, in a block of `strips` strips.
__attribute__((always_inline)) constexpr uint32_t mma64_tiles(uint32_t strips) {
  return kMma64Strips / strips;
}

// group_scale_bytes() is the bytes of the scales and zero points of all groups of `cols` columns of a strip.
MKRT_CONSTEXPR uint32_t group_scale_bytes(const WeightFormat& format, uint32_t cols) {
  return format.grouped() ? cols / format.group_cols * format.group_bytes() : 0;
}
// tile_bytes() is the bytes of a tile of `cols` columns, without scales of rows.
MKRT_CONSTEXPR uint32_t tile_bytes(const WeightFormat& format, uint32_t cols) {
  return cols * kStripRows * format.bits / 8 + group_scale_bytes(format, cols);
}
MKRT_CONSTEXPR uint32_t full_tile_bytes(const WeightFormat& format) {
  return tile_bytes(format, format.tile_cols);
}
// last_tile_bytes() is the bytes of a strip's last tile of `cols` columns, with the scales of rows.
MKRT_CONSTEXPR uint32_t last_tile_bytes(const WeightFormat& format, uint32_t cols) {
  return tile_bytes(format, cols) + kKSlices * format.scale_bytes;
}
constexpr bool every_tile_fits_a_stage() {
  for (const WeightType type : kWeightTypes)
    if (last_tile_bytes(weight_format(type), weight_format(type).tile_cols) > kStageBytes) return false;
  return true;
}
static_assert(every_tile_fits_a_stage());

struct PackedShape {
  WeightFormat format;
  uint64_t rows, cols;   // size of the weight (all sources together)
  uint32_t tile_cols;    // columns of a full tile
  uint32_t col_quantum;  // col_quantum() of the format
  uint32_t tiles;        // tiles of a strip
  uint32_t tail_cols;    // columns of a strip's last tile
  uint64_t padded_cols;  // cols rounded up to col_quantum
  uint64_t strips;       // ceil(rows / kStripRows)
  uint64_t strip_bytes;  // bytes of a strip's tiles and scales
  uint64_t bytes;        // strips * strip_bytes
};

constexpr PackedShape packed_shape(uint64_t rows, uint64_t cols, WeightType type) {
  PackedShape s{};
  s.format = weight_format(type);
  s.rows = rows;
  s.cols = cols;
  s.tile_cols = s.format.tile_cols;
  s.col_quantum = mkrt::col_quantum(s.format);
  s.padded_cols = (cols + s.col_quantum - 1) / s.col_quantum * s.col_quantum;
  s.tiles = static_cast<uint32_t>((s.padded_cols + s.tile_cols - 1) / s.tile_cols);
  s.tail_cols = static_cast<uint32_t>(s.padded_cols - uint64_t{s.tiles - 1} * s.tile_cols);
  s.strips = (rows + kStripRows - 1) / kStripRows;
  s.strip_bytes = uint64_t{s.tiles - 1} * full_tile_bytes(s.format) + last_tile_bytes(s.format, s.tail_cols);
  s.bytes = s.strips * s.strip_bytes;
  return s;
}

// k_slice_bytes() is the bytes of a tile slice of tile `tile`.
constexpr uint64_t k_slice_bytes(const PackedShape& s, uint64_t tile) {
  const bool last = tile + 1 == s.tiles;
  return (last ? last_tile_bytes(s.format, s.tail_cols) : full_tile_bytes(s.format)) / kKSlices;
}

// Place is where an element lies: a byte, and the lowest of its bits there.
struct Place {
  uint64_t byte;
  uint32_t bit;
};

// place_in_lane() is the place of column k of a k-step, in row r of a strip, among its lane's words.
//
// Codes of 4 bits lie in one word. Code i of row r has nibble i % 2 * 4 + r / 8 * 2 + i / 2; i is k % 4. So
// the word's halves have the two columns of a pair at the same bits, and rows share no byte. Codes of 8 bits
// have a word for each of the two rows. Those of two k-steps are the A operand of mma.m16n8k32.
constexpr Place place_in_lane(const WeightFormat& format, uint64_t r, uint64_t k) {
  if (format.bits == 4) {
    const uint64_t nibble = k % 2 * 4 + r / 8 * 2 + k % 4 / 2;
    return {nibble / 2, static_cast<uint32_t>(nibble % 2 * 4)};
  }
  if (format.bits == 8) return {r / 8 * 4 + k % 4, 0};
  const uint64_t pair =
      (format.matrix() ? k % 4 / 2 : 0) * 2 + r / 8;  // index of the pair in the lane's words
  return {(pair * 2 + k % 2) * format.bits / 8, 0};
}

// packed_place() is the place of element (row, col) in the packed weight.
constexpr Place packed_place(const PackedShape& s, uint64_t row, uint64_t col) {
  const uint64_t k_slice = col / (s.padded_cols / kKSlices), in_k_slice = col % (s.padded_cols / kKSlices);
  const uint64_t max = s.tile_cols / kKSlices;  // columns of a K slice in a full tile
  const uint64_t tile = in_k_slice / max;
  const uint64_t step_cols = s.format.step_cols, lane_bytes = s.format.bytes_of(kLaneOperandBytes);
  const uint64_t step = in_k_slice % max / step_cols;
  const uint64_t k = in_k_slice % step_cols;
  const uint64_t r = row % kStripRows;
  const uint64_t lane = (r % 8) * 4 + (s.format.matrix() ? k / 4 : k / 2);  // four columns of a row, or two
  const Place in_lane = place_in_lane(s.format, r, k);
  return {row / kStripRows * s.strip_bytes + tile * full_tile_bytes(s.format) +
              k_slice * k_slice_bytes(s, tile) + (step * 32 + lane) * lane_bytes + in_lane.byte,
          in_lane.bit};
}

// packed_offset() is the byte offset of element (row, col) in the packed weight.
constexpr uint64_t packed_offset(const PackedShape& s, uint64_t row, uint64_t col) {
  return packed_place(s, row, col).byte;
}

// group_offset() is the byte offset of what the group of (row, col) has behind its columns. The format has
// groups.
constexpr uint64_t group_offset(const PackedShape& s, uint64_t row, uint64_t col) {
  const uint64_t k_slice = col / (s.padded_cols / kKSlices), in_k_slice = col % (s.padded_cols / kKSlices);
  const uint64_t max = s.tile_cols / kKSlices, tile = in_k_slice / max;
  const uint64_t cols = tile + 1 == s.tiles ? s.tail_cols / kKSlices : max;  // of the K slice in the tile
  return row / kStripRows * s.strip_bytes + tile * full_tile_bytes(s.format) +
         k_slice * k_slice_bytes(s, tile) + cols * kStripRows * s.format.bits / 8 +
         in_k_slice % max / s.format.group_cols * s.format.group_bytes();
}

// Where the scale and the zero point of a row of a strip lie in what a group has behind its columns.
constexpr uint32_t scale_in_group(const WeightFormat& format, uint32_t row) {
  return row / format.group_rows * scale_size(format.group_scale);
}
constexpr uint32_t zero_in_group(const WeightFormat& format, uint32_t row) {
  return format.zeros_at() + row;
}

// group_scale_offset() is the byte offset of the scale of (row, col) in the packed weight.
constexpr uint64_t group_scale_offset(const PackedShape& s, uint64_t row, uint64_t col) {
  return group_offset(s, row, col) + scale_in_group(s.format, row % kStripRows);
}
// group_zero_offset() is the byte offset of the zero point of (row, col) in the packed weight.
constexpr uint64_t group_zero_offset(const PackedShape& s, uint64_t row, uint64_t col) {
  return group_offset(s, row, col) + zero_in_group(s.format, row % kStripRows);
}

// scale_offset() is the byte offset of a row's scale behind a K slice.
constexpr uint64_t scale_offset(const PackedShape& s, uint64_t row, uint64_t k_slice) {
  return row / kStripRows * s.strip_bytes + uint64_t{s.tiles - 1} * full_tile_bytes(s.format) +
         (k_slice + 1) * k_slice_bytes(s, s.tiles - 1) - s.format.scale_bytes + row % kStripRows * 4;
}

}  // namespace mkrt
