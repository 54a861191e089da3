// The packed weight layout: one layout for every number of tokens, made once at load.
//
// A packed weight is a sequence of strips of kStripRows rows. A strip is a sequence of tiles. A tile is what
// one bulk copy brings into one ring stage. Every tile spans kStripRows rows and `tile_cols` columns. The
// last tile of a strip may be narrower (a multiple of `col_quantum`). Columns and rows past the weight's are
// zero.
//
// A strip's columns are kKSlices K slices of equal length. Every tile has the next columns of each K slice, K
// slice by K slice, in k-steps of 16 columns (2-byte types) or 8 (f32). Products sum each K slice in the
// order of its columns, and then add the K slices in order. This order does not depend on which warp
// multiplies what when. Wgmma128 alone keeps one running sum over all K slices.
//
// A k-step is 512 bytes. Lane l = 4*g + t holds 16 of them:
//   2-byte: (row g, cols 4t, 4t+1) (row g+8, same cols) (row g, cols 4t+2, 4t+3) (row g+8, same cols)
//   f32:    (row g, cols 2t, 2t+1) (row g+8, same cols)
// The 2-byte form is the A operand of mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"). One
// 16-byte read per lane fetches it, free of bank conflicts. Columns 4t+2 and 4t+3 take the place of 2t+8 and
// 2t+9 of the operand, and 4t that of 2t. A sum may run over columns in any order. The columns that a lane
// needs of the other operand are contiguous in this order. Tile bytes are [k_slice][k-step][lane][16].
#pragma once

#include <stdint.h>

namespace mkrt {

constexpr uint32_t kStripRows = 16;
constexpr uint32_t kStageBytes = 16384;  // bytes of a full tile
constexpr uint32_t kKSlices = 8;

// The order in which packed weights stream follows from how they are multiplied. Tokens go in groups, and a
// strip passes through the ring once for each group. Strips go in blocks, whose activations are loaded once.
//
// Mma8 multiplies up to 8 tokens, and all groups of f32 weights. Each consumer warp has a K slice. A pass
// brings a block tile by tile, in each tile strip by strip.
//
// Mma32 multiplies up to 32 tokens of 2-byte weights. The order is that of Mma8. Blocks of more than 16
// tokens have at most kMma32Strips strips.
//
// Mma64 multiplies up to 64 tokens per pass, of 2-byte weights. Each warp has 16 tokens and some of a block's
// strips. A pass brings a block K slice by K slice. A stage has a tile's part of the K slice, of all strips
// one after the other. A stage of a block of few strips also has the parts of the next tiles.
//
// Wgmma128 multiplies up to 128 tokens per pass, by warpgroups. The order is that of Mma64, with one tile in
// a stage. A second stage follows each such stage. The loader leaves it empty for the consumers' activations.
constexpr uint32_t kMma8Tokens = 8;     // tokens that one matrix instruction takes
constexpr uint32_t kMma32Tokens = 32;   // most tokens of a warp with a K slice
constexpr uint32_t kMma64Tokens = 64;   // tokens of a pass of Mma64
constexpr uint32_t kWgmmaTokens = 128;  // tokens of a pass of Wgmma128
constexpr uint32_t kGroupTokens = 16;   // tokens of a group with f32 weights
constexpr uint32_t kBlockStrips = 4;    // strips of a block of 2-byte weights; blocks of f32 weights have 1
// kMma64Strips is the strips of a block of many tokens where its sums fit the registers. Blocks have
// kBlockStrips strips elsewhere.
constexpr uint32_t kMma64Strips = 8;
constexpr uint32_t kMma32Strips = 2;  // most strips of an Mma32 block of more than 16 tokens
// is_mma64() is true where Mma64 or Wgmma128 multiply, else Mma8 or Mma32 do. `strips` are those of the
// block, or kExpert for an expert's rows. Experts use Mma8 and Mma64 only, because their body has registers
// for no more variants.
constexpr uint32_t kExpert = ~0u;
__attribute__((always_inline)) constexpr bool is_mma64(uint32_t tokens, uint32_t elem_bytes,
                                                       uint32_t strips) {
  if (elem_bytes != 2) return false;
  if (strips == kExpert) return tokens > kMma8Tokens;
  return tokens > kMma32Tokens || (tokens > kMma32Tokens / 2 && strips > kMma32Strips);
}
// `wgmma_from` is the fewest tokens of Wgmma128; 0: never.
__attribute__((always_inline)) constexpr bool is_wgmma(uint32_t tokens, uint32_t wgmma_from) {
  return wgmma_from != 0 && tokens >= wgmma_from;
}
__attribute__((always_inline)) constexpr uint32_t block_strips(uint32_t elem_bytes) {
  return elem_bytes == 4 ? 1 : kBlockStrips;
}
// mma64_strips() is the most strips of a block of many tokens.
__attribute__((always_inline)) constexpr uint32_t mma64_strips(bool warpgroups) {
  return warpgroups ? kMma64Strips : kBlockStrips;
}
// This block_strips() is for a product of `tokens` tokens that is no expert's. `many` is the strips of a
// block of many tokens (mma64_strips).
__attribute__((always_inline)) constexpr uint32_t block_strips(uint32_t tokens, uint32_t elem_bytes,
                                                               uint32_t many) {
  return elem_bytes == 2 && tokens > kMma32Tokens / 2 ? many : block_strips(elem_bytes);
}
// kWarpTokens is the tokens of a consumer warp in Mma64. warp_groups() is how many groups of so many tokens
// the warps are divided among.
constexpr uint32_t kWarpTokens = 16;
__attribute__((always_inline)) constexpr uint32_t warp_groups(uint32_t tokens) {
  return tokens <= kWarpTokens ? 1 : tokens <= 2 * kWarpTokens ? 2 : 4;
}
// mma64_tiles() is how many tiles' parts of a K slice a stage of Mma64 has, in a block of `strips` strips.
__attribute__((always_inline)) constexpr uint32_t mma64_tiles(uint32_t strips) {
  return kMma64Strips / strips;
}

struct PackedShape {
  uint32_t elem_bytes;   // 2 or 4
  uint64_t rows, cols;   // size of the weight (all sources together)
  uint32_t tile_cols;    // 512 or 256
  uint32_t col_quantum;  // 128 or 64
  uint32_t tiles;        // tiles of a strip
  uint64_t padded_cols;  // cols rounded up to col_quantum
  uint64_t strips;       // ceil(rows / kStripRows)
  uint64_t strip_bytes;  // kStripRows * padded_cols * elem_bytes
  uint64_t bytes;        // strips * strip_bytes
};

constexpr PackedShape packed_shape(uint64_t rows, uint64_t cols, uint32_t elem_bytes) {
  PackedShape s{};
  s.elem_bytes = elem_bytes;
  s.rows = rows;
  s.cols = cols;
  s.tile_cols = kStageBytes / kStripRows / elem_bytes;
  s.col_quantum = s.tile_cols / 4;
  s.padded_cols = (cols + s.col_quantum - 1) / s.col_quantum * s.col_quantum;
  s.tiles = static_cast<uint32_t>((s.padded_cols + s.tile_cols - 1) / s.tile_cols);
  s.strips = (rows + kStripRows - 1) / kStripRows;
  s.strip_bytes = kStripRows * s.padded_cols * elem_bytes;
  s.bytes = s.strips * s.strip_bytes;
  return s;
}

// packed_offset() is the byte offset of element (row, col) in the packed weight.
constexpr uint64_t packed_offset(const PackedShape& s, uint64_t row, uint64_t col) {
  const uint64_t k_slice = col / (s.padded_cols / kKSlices), in_k_slice = col % (s.padded_cols / kKSlices);
  const uint64_t max = s.tile_cols / kKSlices;  // columns of a K slice in a full tile
  const uint64_t tile = in_k_slice / max;
  const uint64_t left = s.padded_cols / kKSlices - tile * max;
  const uint64_t width = left < max ? left : max;
  const uint64_t step_cols = s.elem_bytes == 2 ? 16 : 8;
  const uint64_t step = in_k_slice % max / step_cols;
  const uint64_t k = in_k_slice % step_cols;
  const uint64_t r = row % kStripRows;
  const bool words = s.elem_bytes == 2;  // a lane has two column pairs of a row, else one
  const uint64_t lane = (r % 8) * 4 + (words ? k / 4 : k / 2);
  const uint64_t pair = (words ? k % 4 / 2 : 0) * 2 + r / 8;  // index of the pair in the lane's 16 bytes
  return row / kStripRows * s.strip_bytes + tile * kStageBytes +
         (k_slice * (width / step_cols) + step) * 512 + lane * 16 + (pair * 2 + k % 2) * s.elem_bytes;
}

}  // namespace mkrt
