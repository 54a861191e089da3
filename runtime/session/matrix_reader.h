// A checkpoint's quantized matrices are read in one form, whatever the form on disk. The form has rows of
// codes, and the scales and zero points of rows and groups.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/artefact/safetensors.h"
#include "runtime/artefact/stored_matrix.h"

namespace mkrt {

// Tells whether a tensor is F32, F16 or BF16.
bool is_float(const StoredTensor& tensor);
// Returns element i of such a tensor, or of one of 8-bit floats.
float value_at(const StoredTensor& tensor, uint64_t i);

// PackedScales is the scales and zero points of some rows as MkPack takes them.
struct PackedScales {
  std::vector<float> rows;     // of each row
  std::vector<float> groups;   // [row][group of group_cols columns], where the format has groups
  std::vector<uint8_t> zeros;  // [row][group], where the format has zero points
};

// MatrixReader reads one matrix of a checkpoint, which outlives it.
class MatrixReader {
 public:
  // Opens the matrix `name` of `rows` x `cols` as weights of a format that has codes. Errors: those of
  // find_stored_matrix(); another format; groups whose columns do not follow each other; zero points of GPTQ
  // without a config that tells their version.
  static Result<MatrixReader> open(const Checkpoint& checkpoint, const std::string& name, WeightType type,
                                   uint64_t rows, uint64_t cols);

  // Returns rows [first, first + count) of codes, the lowest bits first. The bytes are those of the file or
  // of `memory`.
  std::span<const std::byte> codes(uint64_t first, uint64_t count, std::vector<std::byte>& memory) const;

  // Returns the scales of rows [first, first + count). If rows and groups of integers have scales, the
  // product of both is the checkpoint's scale. Scales of groups are f16, and those of rows are powers of 2.
  // Errors: a scale that is not finite, or that no such product equals.
  Result<PackedScales> scales(uint64_t first, uint64_t count) const;

  // Returns the tensors whose numbers may be NaN: the scales, and codes of 8-bit floats.
  std::vector<const StoredTensor*> float_tensors() const;

 private:
  Status check_column_groups(const Checkpoint& checkpoint) const;
  // Opens the zero points. Those of a format without zero points must be in the middle of the codes.
  Status open_zeros(const Checkpoint& checkpoint);
  float scale_at(uint64_t row, uint64_t col) const;
  uint32_t zero_at(uint64_t row, uint64_t group) const;
  void fill_zeros(uint64_t first, uint64_t count, PackedScales& packed) const;

  StoredMatrix stored_;
  WeightFormat format_;
  uint64_t rows_ = 0, cols_ = 0;
  const StoredTensor* codes_ = nullptr;
  const StoredTensor* scales_ = nullptr;
  const StoredTensor* zeros_ = nullptr;  // null where there are none
  uint32_t zero_offset_ = 0;             // what is added to a word of zero points
  float factor_ = 1;
};

}  // namespace mkrt
