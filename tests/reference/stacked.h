// gpt-oss stacks its experts in one tensor.
#pragma once

#include <string>
#include <vector>

#include "tests/reference/coding.h"

namespace reference {

// A stacked matrix is [experts, inputs, outputs] where it is floats. Its codes are those of the transposed
// matrices: NAME_blocks [experts, outputs, inputs / 32, 16] and NAME_scales [experts, outputs, inputs / 32].
//
// Rounds a matrix to what codes and scales can tell. Returns the scales.
std::vector<double> round_stacked(const Coder& coder, std::vector<double>& w, const std::vector<int>& shape);

// Returns the checkpoint's tensors of a rounded matrix.
std::vector<Coder::Tensor> stacked_tensors(const Coder& coder, const std::string& name,
                                           const std::vector<double>& w, const std::vector<double>& scales,
                                           const std::vector<int>& shape);

}  // namespace reference
