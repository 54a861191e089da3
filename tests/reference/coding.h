// Codings of weights follow the definitions of their checkpoint formats: codes of few bits, scales, zero
// points.
#pragma once

#include <string>
#include <vector>

namespace reference {

enum class Type;

enum class Coding {
  kNone,
  kE4m3Rows,    // compressed-tensors, float-quantized by channel: a scale for each row
  kE4m3Tensor,  // the method fp8 without blocks: one scale
  kE4m3Blocks,  // the method fp8 with blocks of 128 x 128
  kPacked,      // compressed-tensors, pack-quantized: integers, a scale for each group of columns of a row
  kGptq,        // the method gptq, whose zero points are stored minus one
  kGptqV2,      // the same with zero points as they are
  kAwq,         // the method awq, version gemm
  kMxfp4,       // compressed-tensors, mxfp4-pack-quantized
  kNvfp4,       // compressed-tensors, nvfp4-pack-quantized
  kModelopt     // the method modelopt, NVFP4
};
constexpr Coding kCodings[] = {Coding::kE4m3Rows, Coding::kE4m3Tensor, Coding::kE4m3Blocks, Coding::kPacked,
                               Coding::kGptq,     Coding::kGptqV2,     Coding::kAwq,        Coding::kMxfp4,
                               Coding::kNvfp4,    Coding::kModelopt};
const char* coding_name(Coding coding);

// Coder codes matrices of one model.
struct Coder {
  Coding coding = Coding::kNone;
  Type type{};         // of scales that may have any float type
  int group = 0;       // columns that share a scale of integers; 0: all columns of a row
  int bits = 4;        // of integers
  bool zeros = false;  // integers have zero points, which differ between rows and groups

  // Tells whether codes are integers.
  bool integers() const;
  // Returns what columns and rows of a matrix must be a multiple of.
  int multiple() const;
  // Rounds a matrix to what codes and scales can tell. Returns the scales of its blocks.
  std::vector<double> round(std::vector<double>& w, int rows, int cols) const;

  struct Tensor {
    std::string name;
    const char* type;
    std::vector<int> shape;
    std::string bytes;
  };
  // Returns the checkpoint's tensors of a rounded matrix called `name`, which ends in "weight".
  std::vector<Tensor> tensors(const std::string& name, const std::vector<double>& w,
                              const std::vector<double>& scales, int rows, int cols) const;
  // Returns config.json's quantization_config as JSON text.
  std::string config() const;
};

}  // namespace reference
