// The two upper levels are printed as Graphviz text, for `dot -Tsvg`.
#pragma once

#include <string>

#include "ir/tasks.h"

namespace mkc {

// Draws a node for each op, and an edge from the last writer of a tensor to each op that reads it. Weights,
// tables and inputs have no nodes. Layers are boxes. Requires a verified graph. Equal graphs give equal text.
std::string to_dot(const OpGraph& graph);

// Draws a node for each grid, with its body and coordinates, and for each event, with its cells and expected
// counts. Edges lead from a grid to each event it notifies, and from an event to each grid that waits for it.
// A program without events has an edge from the last writer of a tensor to each grid that reads it.
std::string to_dot(const TaskProgram& program);

}  // namespace mkc
