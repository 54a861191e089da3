// A config without a checkpoint plans the formats of quantized matrices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/module_pattern.h"
#include "ir/tensor.h"

namespace mkc {

// FormatRule is the format of the matrices of some modules.
struct FormatRule {
  bool all = false;  // the rule is for all modules
  std::vector<ModulePattern> modules{};
  mkrt::WeightType floats{};  // the format of floats
  uint32_t bits = 0;          // of integers; 0: the codes are floats
  uint64_t group_cols = 0;    // columns that share a scale; 0: all of a row
  bool zeros = false;         // integers have zero points
  Place place{};
};

struct PlannedFormats {
  std::vector<FormatRule> rules;
  std::vector<ModulePattern> left_out;
};

// Reads `quantization_config`, which read_quantization() has accepted. Errors: patterns that are no list of
// strings, or that are no regular expressions; a group_size that is no number.
Result<PlannedFormats> read_planned_formats(const Document& config);

// Returns the dtype of a matrix "MODULE.weight", or nothing where it is not quantized. Errors: columns that
// the rule's groups do not divide.
Result<std::optional<DType>> planned_dtype(const PlannedFormats& planned, const Document& config,
                                           const std::string& name, uint64_t cols);

}  // namespace mkc
