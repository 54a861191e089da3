#include "scheduler/machine/order.h"

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/depth_first_search.hpp>

namespace mkc {
namespace {

using Graph = boost::compressed_sparse_row_graph<boost::directedS>;
using Node = boost::graph_traits<Graph>::vertex_descriptor;

// Collects nodes as they finish. Keeps the path to the current node, to name the cycle that a back edge
// closes.
struct OrderVisitor : boost::default_dfs_visitor {
  std::vector<uint32_t>* finished;
  std::vector<uint32_t>* path;
  std::vector<uint32_t>* cycle;

  void discover_vertex(Node v, const Graph&) { path->push_back(static_cast<uint32_t>(v)); }
  void finish_vertex(Node v, const Graph&) {
    path->pop_back();
    finished->push_back(static_cast<uint32_t>(v));
  }
  template <class Edge>
  void back_edge(Edge e, const Graph& graph) {
    if (!cycle->empty()) return;
    const auto start = std::find(path->begin(), path->end(), static_cast<uint32_t>(target(e, graph)));
    cycle->assign(start, path->end());
  }
};

}  // namespace

TopologicalOrder topological_order(uint32_t nodes, const std::vector<std::pair<uint32_t, uint32_t>>& edges) {
  TopologicalOrder result;
  std::vector<uint32_t> path;
  const Graph graph(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(), nodes);
  OrderVisitor visitor{{}, &result.order, &path, &result.cycle};
  boost::depth_first_search(graph, boost::visitor(visitor));
  std::reverse(result.order.begin(), result.order.end());
  if (!result.cycle.empty()) result.order.clear();
  return result;
}

}  // namespace mkc
