// The report shows the op graph of a layer after fusion.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "codegen/kinds.h"
#include "ir/ops.h"
#include "tools/simulated_step.h"

namespace mkc {

// Returns the sections of the graph: the grids of a layer, or those outside of layers. Layers of equal kinds
// of grids are one section, which its first layer stands for.
//
// A section is {layer, last, layers, nodes, edges}: its first and last layer (-1 outside), and their number.
// A node is a grid {grid, id, body, tasks, bytes, ops}. An op is {op, inputs, outputs, attrs} with the
// operands {role, tensor, type, shape, bytes}. Bytes are those at the step's symbols. An edge {from, to,
// tensors} leads to a node from the last writer of what it reads: a node's number, or the name of a grid
// elsewhere.
nlohmann::ordered_json layer_graph_json(const SimulatedStep& step, const OpGraph& ops, const Kinds& kinds);

}  // namespace mkc
