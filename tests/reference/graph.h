// This reference computes an operator graph in float64, op by op, for one request from its first token on.
// The reference shares only the graph's structs and their accessors with mkc.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/ops.h"
#include "tests/reference/model.h"

namespace reference {

// Returns the graph's tensors [tokens][columns] by name, after a causal pass over the tokens in which all
// rows are wanted. `weights` are row-major, by the checkpoint's names. Requires a graph without experts and
// samples.
std::map<std::string, Rows> values_of(const mkc::OpGraph& graph,
                                      const std::map<std::string, std::vector<double>>& weights,
                                      const std::vector<int32_t>& tokens);

}  // namespace reference
