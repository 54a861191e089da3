// Reads what a checkpoint's config.json says of quantized weights.
#pragma once

#include "frontend/node.h"
#include "ir/tensor.h"

namespace mkc {

// Quantization is how matrices of a checkpoint may be stored, beside the checkpoint's plain dtype.
enum class Quantization : uint8_t {
  kNone,
  kE4m3,  // codes of 8 bits under the weight's name, with scales of the tensor, its rows or its blocks
  kInt4,  // codes of 4 bits, eight to a word, with scales of groups of columns
};

// Reads `quantization_config`. The tensors say which matrices are quantized, and how many share a scale.
// Errors: a method, format or scheme that no weight format is for.
Result<Quantization> read_quantization(const Document& config);

}  // namespace mkc
