// Biases of logits are given in JSON.
#pragma once

#include <vector>

#include "runtime/base/json_node.h"
#include "runtime/session/bias.h"

namespace mkc {

// Reads {"ID": VALUE, …}. Faults of the node: a key that is no token id, a value that is no number or whose
// size exceeds `limit`.
std::vector<mkrt::LogitBias> read_logit_bias(const mkrt::JsonNode& node, double limit);

}  // namespace mkc
