// Checkpoints store the codes, scales and zero points of a quantized matrix in tensors of several forms.
//
// compressed-tensors 0.20 stores codes in rows, and so do the method fp8 and NVIDIA's ModelOpt. GPTQ and AWQ
// store them column by column. The tensors' names and shapes say which of these it is.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/abi/weight_format.h"
#include "runtime/base/status.h"

namespace mkrt {

// TensorHeader is what a file says of a tensor, without its bytes.
struct TensorHeader {
  std::string name, dtype, file;
  std::vector<int64_t> shape;
};
// Returns a shape as errors print it: "[2, 3]".
std::string shape_text(const std::vector<int64_t>& shape);

// Returns the error that names the file, the tensor, its type and its shape, and what was expected.
Error unexpected_tensor(const TensorHeader& t, const std::string& expected);

// FindTensor returns the tensor of a name, or nothing.
using FindTensor = std::function<std::optional<TensorHeader>(const std::string& name)>;

// CodeOrder is the order of the codes of a matrix [rows, cols]. Codes of a word are n = 32 / bits. The first
// of them has the lowest bits.
enum class CodeOrder : uint8_t {
  kRows,     // [rows, cols]
  kColumns,  // words [cols / n, rows] of n columns (GPTQ)
  kAwq,      // words [cols, rows / n] of n rows, whose even rows come first
};

// StoredMatrix names the tensors of a matrix. "" stands for no tensor.
struct StoredMatrix {
  WeightType type{};
  uint32_t bits = 0;  // of a code
  CodeOrder order = CodeOrder::kRows;
  std::string codes;
  // Row i of the matrix is row first_row + i * row_step of the tensors of codes and scales. The first dims of
  // these tensors are then taken as one. Orders but kRows have 0 and 1.
  uint64_t first_row = 0, row_step = 1;
  // A scale belongs to `scale_rows` x `scale_cols` elements. The scales of kRows are [blocks of rows, blocks
  // of columns], all others [groups of columns, rows].
  std::string scales;
  uint64_t scale_rows = 1, scale_cols = 1;
  std::string factor;        // of all scales, one number
  bool divided = false;      // the scales are divided by the factor
  std::string zeros;         // zero points of groups, in words: of kRows along rows, and as the codes else
  std::string column_group;  // the group of each column
  std::vector<std::string> beside;  // tensors that belong to the matrix, which nobody needs
};

// Returns the format of integers of 4 or 8 bits of which `scale_cols` columns share a scale, or nothing where
// none has such groups. The format is the one of fewer bytes if two fit.
std::optional<WeightType> integer_type(uint32_t bits, bool zeros, uint64_t scale_cols, uint64_t cols);

// Returns how a matrix is stored, or nothing where its numbers are plain floats or absent. `name` is that of
// the weight, "MODULE.weight", or that of a view of columns (tensor_view.h). Codes of a view NAME[…] are in
// NAME_blocks [experts, all rows, cols / 32, 16]. Their scales are in NAME_scales [experts, all rows, cols /
// 32]. `symmetric` says that integers have no zero points even where the checkpoint has some, because these
// are all in the middle of the codes. Errors: a missing tensor, or one of another type or shape.
Result<std::optional<StoredMatrix>> find_stored_matrix(const FindTensor& find, const std::string& name,
                                                       uint64_t rows, uint64_t cols, bool symmetric);

}  // namespace mkrt
