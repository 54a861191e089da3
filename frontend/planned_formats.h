// A config says which formats the quantized matrices of which modules have.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/module_pattern.h"
#include "ir/tensor.h"

namespace mkc {

// ScalesRule is what a rule says of the scales of a matrix.
enum class ScalesRule : uint8_t { kUnsaid, kTensor, kRows, kBlocks, kGroups };

// FormatRule is the format of the matrices of some modules.
struct FormatRule {
  bool all = false;                      // the rule is for all modules that no rule names
  std::vector<ModulePattern> modules{};  // that the rule names
  mkrt::WeightType floats{};             // the format of floats
  uint32_t bits = 0;                     // of integers; 0: the codes are floats
  uint64_t group_cols = 0;               // columns that share a scale; 0: all of a row
  bool zeros = false;                    // integers have zero points
  ScalesRule scales = ScalesRule::kUnsaid;
  Place place{};
  // The keys of the config that say the kind of codes, the bits of integers, and the scales.
  Node format_key{}, bits_key{}, scales_key{};
};

struct PlannedFormats {
  std::vector<FormatRule> rules;
  std::vector<ModulePattern> left_out;
  bool by_module = false;   // compressed-tensors: targets say which modules are quantized, and as what
  bool overridden = false;  // other keys override the rule for some modules, and are not read
};

// Reads `quantization_config`, which read_quantization() has accepted. Modules that are left out are read for
// compressed-tensors, and where there are no tensors, which would say it. Errors: patterns that are no list
// of strings, or that are no regular expressions; a group_size that is no number.
Result<PlannedFormats> read_planned_formats(const Document& config, bool has_tensors);

// Reads the `quantization` of hf_quant_config.json, which read_quantization() has accepted.
PlannedFormats read_modelopt_formats(const Document& document);

// Returns the rule of a matrix "MODULE.weight", or null where the matrix is not quantized. Errors: those of
// matches().
Result<const FormatRule*> find_rule(const PlannedFormats& planned, const Document& config,
                                    const std::string& name);

// Returns the dtype of a matrix "MODULE.weight", or nothing where it is not quantized. Errors: columns that
// the rule's groups do not divide.
Result<std::optional<DType>> planned_dtype(const PlannedFormats& planned, const Document& config,
                                           const std::string& name, uint64_t cols);

}  // namespace mkc
