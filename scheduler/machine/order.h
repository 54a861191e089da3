// A plain graph has a topological order, or a cycle that prevents one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace mkc {

struct TopologicalOrder {
  std::vector<uint32_t> order;  // every node, sources of edges first; empty if there is a cycle
  std::vector<uint32_t> cycle;  // v0, v1, …: edges v0 -> v1 -> … -> v0
};

// Sorts the nodes 0 .. nodes - 1. The same input gives the same answer.
TopologicalOrder topological_order(uint32_t nodes, const std::vector<std::pair<uint32_t, uint32_t>>& edges);

}  // namespace mkc
