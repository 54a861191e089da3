// Reads what a checkpoint's config.json says of quantized weights.
#pragma once

#include <memory>
#include <optional>

#include "frontend/node.h"
#include "ir/tensor.h"

namespace mkc {

// Quantization is what the config says that a matrix's tensors do not. The tensors say which matrices are
// quantized, by how many bits, and how many numbers share a scale (runtime/artefact/stored_matrix.h).
struct Quantization {
  // The config asks for activations of 8-bit floats wherever weights are 8-bit floats.
  bool fp8_activations = false;
  bool symmetric = false;    // the zero points of integers are all in the middle of the codes
  bool asymmetric = false;   // all integers of compressed-tensors have zero points
  bool mixed_zeros = false;  // some groups of compressed-tensors are symmetric, and some are not
  bool reordered = false;    // desc_act: the config says that g_idx has the group of each column
  std::shared_ptr<const Document> modelopt{};  // hf_quant_config.json, where it is read
};

constexpr const char* kModeloptConfig = "hf_quant_config.json";

// Reads `quantization_config`, or else the `quantization` of hf_quant_config.json in the directory. Returns
// nothing where neither exists. Errors: a method, format or scheme that no weight format is for.
Result<std::optional<Quantization>> read_quantization(const Document& config, const std::string& directory);

}  // namespace mkc
