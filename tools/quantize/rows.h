// These functions read the rows of a checkpoint's matrices as floats.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/artefact/safetensors.h"

namespace mkc::quantize {

// RowsOf says which weights of a tensor are rows of `cols` weights, whose groups share scales. A matrix is
// [rows, cols]. Stacked matrices [n, cols, stacked] hold the experts of gpt-oss. Their columns are the rows,
// and those of the first matrix come first.
struct RowsOf {
  uint64_t rows, cols;
  uint64_t stacked = 0;  // rows of each of the stacked matrices; 0: the tensor is one matrix
};

// Requires a tensor of two or three dims.
RowsOf rows_of(const mkrt::StoredTensor& tensor);

// Reads rows from `first` on, of a tensor of F32, F16 or BF16. `to` has room for whole rows.
void read_rows(const mkrt::StoredTensor& tensor, uint64_t first, std::span<float> to);

// Returns the place of a weight in the tensor, as errors name it.
std::string place_of(const mkrt::StoredTensor& tensor, uint64_t row, uint64_t col);

}  // namespace mkc::quantize
