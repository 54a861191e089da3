// Rows of a matrix are quantized block by block: a scale for each, codes, and the error that they leave.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tools/quantize/format.h"

namespace mkc::quantize {

// SquareSums are of weights and of what quantization changed about them.
struct SquareSums {
  double weights = 0, errors = 0;
  void add(const SquareSums& other) { weights += other.weights, errors += other.errors; }
};

// QuantizedRows is some rows of a matrix as the checkpoint stores them.
struct QuantizedRows {
  std::vector<uint8_t> codes;   // [rows][cols * bits / 8], the lowest bits first
  std::vector<uint8_t> scales;  // [blocks of rows][blocks of columns]
  SquareSums sums;
};

// Quantizes rows, given as [rows][cols] finite numbers. Requires cols to be a multiple of the format's
// col_quantum. Rows are whole blocks, but for the last block of a matrix.
//
// A block's scale is the one of these for which the squared error of the block is least:
// - bf16: the scale for which the block's greatest magnitude has the greatest code, times 1 - i/64 for i from
// 0
//   to 32, so that outliers may be clipped
// - e8m0: the power of 2 of the OCP specification, its half, and its double
// Scales of bf16 are at least 2^-24 of the greatest one that the row's blocks would have without clipping.
QuantizedRows quantize_rows(const Format& format, std::span<const float> weights, uint64_t cols);

}  // namespace mkc::quantize
