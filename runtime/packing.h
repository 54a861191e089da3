// The packed weight layout: one layout for every number of tokens, made once at load.
//
// A packed weight is a sequence of strips of kTileRows rows; a strip is a sequence of tiles; a tile is what
// one bulk copy brings into one ring stage. Every tile spans kTileRows rows and `tile_cols` columns but the
// last of a strip, which may be narrower (a multiple of `col_quantum`); columns and rows past the weight's
// are zero. A strip's columns are kKSlices K slices of equal length, and every tile has the next ones of each
// K slice, K slice by K slice, in k-steps of 16 columns (2-byte types) or 8 (f32). Every product is added up
// K slice by K slice, in the order of columns, and then the K slices, whoever multiplies what when. A k-step
// is 512 bytes: lane l = 4*g + t holds 16 of them,
//   2-byte: (row g, cols 4t, 4t+1) (row g+8, same cols) (row g, cols 4t+2, 4t+3) (row g+8, same cols)
//   f32:    (row g, cols 2t, 2t+1) (row g+8, same cols)
// which is the A operand of mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16") in one 16-byte read a
// lane, free of bank conflicts, with columns 4t+2 and 4t+3 for 2t+8 and 2t+9 of the operand, and 4t for 2t: a
// sum may run over columns in any order, and in this one a lane's columns of the other operand lie together,
// too. Tile bytes: [k_slice][k-step][lane][16].
#pragma once

#include <stdint.h>

namespace mkrt {

constexpr uint32_t kStripRows = 16;
constexpr uint32_t kStageBytes = 16384;  // a full tile
constexpr uint32_t kKSlices = 8;

// How packed weights are multiplied, and so the order in which they stream. Tokens go in groups, and a strip
// passes through the ring once for each. Strips go in blocks, whose activations are loaded once.
//
// Few tokens, and f32 weights: each consumer warp has a K slice. A pass brings a block tile by tile, in each
// tile strip by strip.
// Some tokens, of 2-byte weights: the same; with more than half of them, of blocks of few strips.
// Many tokens, of 2-byte weights: each warp has tokens, and some of a block's strips. A pass brings a block
// K slice by K slice; a stage has a tile's part of the K slice, of all strips one after the other, and where
// these are few, those of the next tiles. More tokens, where warpgroups multiply: the same, of a tile each.
// Behind each such stage comes one that the loader leaves empty, for the consumers' activations.
constexpr uint32_t kMma8Tokens = 8;     // that one matrix instruction takes
constexpr uint32_t kMma32Tokens = 32;   // that a warp with a K slice takes at most
constexpr uint32_t kMma64Tokens = 64;   // of a group
constexpr uint32_t kWgmmaTokens = 128;  // of a group, where warpgroups multiply
constexpr uint32_t kGroupTokens = 16;   // of f32 weights
constexpr uint32_t kBlockStrips = 4;    // of 2-byte weights; of f32 weights 1
constexpr uint32_t kMma64Strips = 8;    // of many tokens, where its sums fit the registers; else as others
constexpr uint32_t kMma32Strips = 2;    // of more than kMma32Tokens / 2 tokens
// `strips`: of a block. Of an expert's rows, which are few or many, as its body has registers for no more,
// they do not matter.
constexpr uint32_t kExpert = ~0u;
__attribute__((always_inline)) constexpr bool is_mma64(uint32_t tokens, uint32_t elem_bytes,
                                                       uint32_t strips) {
  if (elem_bytes != 2) return false;
  if (strips == kExpert) return tokens > kMma8Tokens;
  return tokens > kMma32Tokens || (tokens > kMma32Tokens / 2 && strips > kMma32Strips);
}
// `wgmma_from`: the tokens from which on warpgroups multiply; 0: they never do.
__attribute__((always_inline)) constexpr bool is_wgmma(uint32_t tokens, uint32_t wgmma_from) {
  return wgmma_from != 0 && tokens >= wgmma_from;
}
__attribute__((always_inline)) constexpr uint32_t block_strips(uint32_t elem_bytes) {
  return elem_bytes == 4 ? 1 : kBlockStrips;
}
// Of a block of many tokens.
__attribute__((always_inline)) constexpr uint32_t mma64_strips(bool warpgroups) {
  return warpgroups ? kMma64Strips : kBlockStrips;
}
// Of a product of so many tokens, that of no expert; `many`: of a block of many tokens.
__attribute__((always_inline)) constexpr uint32_t block_strips(uint32_t tokens, uint32_t elem_bytes,
                                                               uint32_t many) {
  return elem_bytes == 2 && tokens > kMma32Tokens / 2 ? many : block_strips(elem_bytes);
}
// Of many tokens a consumer warp has so many: how many groups of warps have the same ones.
constexpr uint32_t kWarpTokens = 16;
__attribute__((always_inline)) constexpr uint32_t warp_groups(uint32_t tokens) {
  return tokens <= kWarpTokens ? 1 : tokens <= 2 * kWarpTokens ? 2 : 4;
}
// How many tiles' parts of a K slice a stage has of many tokens, where a block has so many strips.
__attribute__((always_inline)) constexpr uint32_t mma64_tiles(uint32_t strips) {
  return kMma64Strips / strips;
}

struct PackedShape {
  uint32_t elem_bytes;   // 2 or 4
  uint64_t rows, cols;   // of the weight (all sources together)
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

// Byte offset of element (row, col) in the packed weight.
constexpr uint64_t packed_offset(const PackedShape& s, uint64_t row, uint64_t col) {
  const uint64_t k_slice = col / (s.padded_cols / kKSlices), in_k_slice = col % (s.padded_cols / kKSlices);
  const uint64_t max = s.tile_cols / kKSlices;  // of a K slice's columns, in a tile
  const uint64_t tile = in_k_slice / max;
  const uint64_t left = s.padded_cols / kKSlices - tile * max;
  const uint64_t width = left < max ? left : max;
  const uint64_t step_cols = s.elem_bytes == 2 ? 16 : 8;
  const uint64_t step = in_k_slice % max / step_cols;
  const uint64_t k = in_k_slice % step_cols;
  const uint64_t r = row % kStripRows;
  const bool words = s.elem_bytes == 2;  // a lane has two of a row, else one
  const uint64_t lane = (r % 8) * 4 + (words ? k / 4 : k / 2);
  const uint64_t pair = (words ? k % 4 / 2 : 0) * 2 + r / 8;  // which pair of the lane's 16 bytes
  return row / kStripRows * s.strip_bytes + tile * kStageBytes +
         (k_slice * (width / step_cols) + step) * 512 + lane * 16 + (pair * 2 + k % 2) * s.elem_bytes;
}

}  // namespace mkrt
