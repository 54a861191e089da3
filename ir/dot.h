// Graphviz text of the two upper levels, to be drawn by `dot -Tsvg`.
#pragma once

#include <string>

#include "ir/tasks.h"

namespace mkc {

// A node for each op and an edge from the last writer of a tensor to each op that reads it; weights, tables
// and inputs have no nodes. Layers are boxes. Requires a verified graph; equal graphs give equal text.
std::string to_dot(const OpGraph& graph);

// A node for each grid, with its body and coordinates, and each event, with its cells and what they expect;
// an edge from a grid to each event it notifies and from an event to each grid that waits for it. Without
// events: an edge from the last writer of a tensor to each grid that reads it.
std::string to_dot(const TaskProgram& program);

}  // namespace mkc
