// What the patterns of fuse share: who reads what in the graph, and the grids built so far. Internal to fuse.
#pragma once

#include <map>

#include "ir/tasks.h"

namespace mkc {

// What a route grid tells its layer's experts: the program's tensors.
struct RouteTables {
  TensorId active_experts, expert, active_expert_rows, active_expert_begin, token, row;
};

struct Fusion {
  Fusion(const OpGraph& op_graph, uint32_t of_workers);

  const OpGraph& graph;
  const uint32_t workers;
  std::vector<OpId> producer;              // by TensorId: the op that computes it, if any
  std::vector<std::vector<OpId>> readers;  // by TensorId
  std::vector<bool> taken;                 // by OpId: part of a grid
  TaskProgram program;
  std::map<TensorId, RouteTables> routes;  // by the graph's choice

  // The op of this kind that computes the tensor; an invalid id where there is none.
  OpId producer_of(TensorId tensor, OpKind kind) const;
  // The same, if nothing but one op reads the tensor, so that it need not exist.
  OpId sole_producer_of(TensorId tensor, OpKind kind) const;
  // The op of this kind that alone reads the first result of `op`; an invalid id where there is none.
  OpId sole_reader_of(OpId op, OpKind kind) const;
  OpId sole_reader_of(OpId op) const;
  // The same, of any gated op.
  OpId sole_gated_reader_of(OpId op) const;

  // Whether the program has the graph's tensor.
  bool keeps(TensorId graph_tensor) const { return kept_[graph_tensor.index].valid(); }
  // The program's tensor for one of the graph, added at its first use.
  TensorId use(TensorId graph_tensor);
  // The same for a vector of weights, which is converted to f32 when it is loaded.
  TensorId use_vector(TensorId graph_tensor);
  // The packed weight made of these weights of the graph; one for all its users.
  TensorId use_packed(const std::vector<TensorId>& sources, int64_t group, const std::string& name);
  TensorId add_activation(const std::string& name, DType dtype, std::vector<Expr> shape, const Loc& loc);
  // The routed symbols of a program: `active_experts` experts that have tokens, active_expert_rows and
  // active_expert_begin of each. Added at their first use, for as many experts and choices; false where they
  // were for others.
  bool add_slots(int64_t experts, int64_t choices, const Expr& tokens, const Loc& loc);
  Expr active_experts() const;

  // Adds a grid for `ops`, whose last gives layer and place; `name` gets a number where it is taken.
  GridId add_grid(std::string name, BodyKind body, std::vector<Coord> coords, std::vector<OpId> ops);
  // Adds an operand; its region follows once all grids are there (ir/footprint.h).
  void read(GridId grid, const char* role, TensorId tensor, bool stream = false);
  void write(GridId grid, const char* role, TensorId tensor);

  // The list over the requests; an error of `op` where the graph has none.
  Result<SymbolId> request_list(OpId op, const char* name, const Expr& requests) const;

  const Tensor& tensor(TensorId graph_tensor) const { return graph.tensors[graph_tensor]; }
  const std::string& out_name(OpId op) const { return tensor(graph.ops[op].outputs[0]).name; }
  Error misfit(OpId op, const std::string& why) const;

 private:
  std::vector<TensorId> kept_;  // by the graph's TensorId
  std::map<std::vector<TensorId>, TensorId> packed_;
};

// The patterns of experts: a route; one or two expert_linears, the latter with the gated op that reads them;
// an expert_sum, with the add that reads it if that is valid.
Status fuse_route(Fusion& fusion, OpId route);
Status fuse_expert_linears(Fusion& fusion, const std::vector<OpId>& linears, OpId gated,
                           const std::string& name);
Status fuse_expert_sum(Fusion& fusion, OpId sum, OpId add);

// The attention pattern, anchored at an attention op.
Status fuse_attention(Fusion& fusion, OpId attention);

// Once all grids are there: what only products take, as they take it.
void round_activations(Fusion& fusion);

}  // namespace mkc
