// Codings of weights, from the definitions of their checkpoint formats: codes of few bits, and scales.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reference {

enum class Type;

enum class Coding {
  kNone,
  kE4m3Rows,    // compressed-tensors, float-quantized by channel: a scale for each row
  kE4m3Tensor,  // the method fp8 without blocks: one scale
  kE4m3Blocks,  // the method fp8 with blocks of 128 x 128
  kInt4,        // compressed-tensors, pack-quantized: 4 bits, a scale for each group of columns of a row
};
const char* coding_name(Coding coding);

// Coder codes matrices of one model.
struct Coder {
  Coding coding = Coding::kNone;
  int group = 0;  // columns that share a scale in kInt4; 0: all columns of a row
  Type type{};    // of the scales

  // Returns what the name of a matrix's scales has behind the matrix's name.
  const char* scales_suffix() const;
  // Returns the shape of the scales of a matrix.
  std::vector<int> scales_shape(int rows, int cols) const;
  // Rounds a matrix to codes times scales. Returns the scales.
  std::vector<double> round(std::vector<double>& w, int rows, int cols) const;

  // Tensor is one tensor of the checkpoint, named by what follows the matrix's name.
  struct Tensor {
    std::string suffix;
    const char* type;
    std::vector<int> shape;
    std::string bytes;
  };
  // Returns the tensors of a rounded matrix, except for its scales.
  std::vector<Tensor> codes(const std::vector<double>& w, const std::vector<double>& scales, int rows,
                            int cols) const;
  // Returns config.json's quantization_config as JSON text.
  std::string config() const;

 private:
  struct Blocks {
    int rows, cols;  // of a matrix, that share a scale
  };
  Blocks blocks(int rows, int cols) const;
};

}  // namespace reference
