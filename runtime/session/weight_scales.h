// The scales of a quantized weight, as a checkpoint has them: one for a tensor, a row, a block or a group.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/abi/weight_format.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/base/status.h"

namespace mkrt {

// Tells whether a tensor is F32, F16 or BF16.
bool is_float(const StoredTensor& tensor);
// Returns element i of such a tensor.
float value_at(const StoredTensor& tensor, uint64_t i);

// ScaleGrid says which element of a tensor is the scale of a weight's element.
struct ScaleGrid {
  const StoredTensor* tensor = nullptr;
  uint64_t rows = 1, cols = 1;  // of the weight, that share a scale
  uint64_t grid_cols = 1;       // scales of a row of the grid
  float at(uint64_t row, uint64_t col) const {
    return value_at(*tensor, row / rows * grid_cols + col / cols);
  }
};

// Returns the name of a weight's tensor of codes.
std::string codes_name(const WeightFormat& format, const std::string& weight);
// Returns the tensor of a weight's scales, or null.
const StoredTensor* find_scales(const Checkpoint& checkpoint, const WeightFormat& format,
                                const std::string& weight);
// Returns the grid of the scales of a weight of `rows` x `cols`. Requires a format with scales. Errors: no
// tensor, or one of another type or shape.
Result<ScaleGrid> scale_grid(const Checkpoint& checkpoint, const WeightFormat& format,
                             const std::string& weight, uint64_t rows, uint64_t cols);

// PackedScales is the scales of some rows as MkPack takes them.
struct PackedScales {
  std::vector<float> rows;    // of each row
  std::vector<float> groups;  // [row][group of group_cols columns], where the format has groups
};

// Returns the scales of rows [first, first + count) of a weight of `cols` columns. Where rows and groups have
// scales, those of groups are f16 and those of rows powers of 2, and their product is the checkpoint's scale.
// Errors: a scale that is not finite, or that no such product equals.
Result<PackedScales> packed_scales(const ScaleGrid& grid, const WeightFormat& format, uint64_t first,
                                   uint64_t count, uint64_t cols);

}  // namespace mkrt
