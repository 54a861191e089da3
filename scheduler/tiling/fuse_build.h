// The patterns of fuse share these data: the readers of each tensor of the graph, and the grids built so far.
// This header is internal to fuse.
#pragma once

#include <map>

#include "ir/tasks.h"

namespace mkc {

// kPairedRows rows of gate, then as many of up, make one strip of a gate/up weight.
constexpr int64_t kPairedRows = kTileRows / 2;

// RouteTables has the tensors of the program in which a route grid tells its layer's experts about their
// rows.
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
  std::map<TensorId, RouteTables> routes;  // by the graph's tensor `choice`
  OpId current;                            // the op that fuse() visits
  std::vector<OpId> made_for;              // by GridId: the op that was visited when the grid was added
  // By sample: the best value and index of each strip, where a row grid finds them.
  std::map<OpId, std::pair<TensorId, TensorId>> best;
  std::map<std::string, std::string> unfused;  // by name of a row grid: why no pattern holds its last op

  // Returns the op of this kind that computes the tensor, or an invalid id where there is none.
  OpId producer_of(TensorId tensor, OpKind kind) const;
  // Returns producer_of() if the tensor is an activation that exactly one op reads. The program need not have
  // such a tensor.
  OpId sole_producer_of(TensorId tensor, OpKind kind) const;
  // Returns the op of this kind that alone reads the first result of `op`, or an invalid id where there is
  // none.
  OpId sole_reader_of(OpId op, OpKind kind) const;
  OpId sole_reader_of(OpId op) const;
  // Returns the gated op that alone reads the first result of `op`, or an invalid id where there is none.
  OpId sole_gated_reader_of(OpId op) const;

  // Tells whether the program has the graph's tensor.
  bool keeps(TensorId graph_tensor) const { return kept_[graph_tensor.index].valid(); }
  // Returns the program's tensor for one of the graph. The tensor is added at its first use.
  TensorId use(TensorId graph_tensor);
  // Returns use() for a vector of weights. A vector of weights is converted to f32 when it is loaded.
  TensorId use_vector(TensorId graph_tensor);
  // Returns the packed weight made of these weights of the graph. All users of these weights share it.
  TensorId use_packed(const std::vector<TensorId>& sources, int64_t group, const std::string& name);
  // Adds an activation that the graph does not have.
  TensorId add_activation(const std::string& name, DType dtype, std::vector<Expr> shape, const Loc& loc);
  // Adds the routed symbols of a program at their first use: active_experts, active_expert_rows and
  // active_expert_begin. active_experts counts the experts that have tokens; the lists are by active expert.
  // Returns false where the symbols exist for other numbers of experts or choices.
  bool add_active_experts(int64_t experts, int64_t choices, const Expr& tokens, const Loc& loc);
  // Returns the symbol active_experts. Requires add_active_experts().
  Expr active_experts() const;

  // Adds a grid for `ops`. The last op gives the grid its layer and place. A `name` that is taken gets a
  // number.
  GridId add_grid(std::string name, BodyKind body, std::vector<Coord> coords, std::vector<OpId> ops);
  // Adds an operand. The operand's region is set once all grids exist (ir/footprint.h).
  void read(GridId grid, const std::string& role, TensorId tensor, bool stream = false);
  void write(GridId grid, const char* role, TensorId tensor);

  // Fails, at `op`, unless the graph has lists of these names over the requests.
  Status require_lists(OpId op, std::initializer_list<const char*> names, const Expr& requests) const;

  const Tensor& tensor(TensorId graph_tensor) const { return graph.tensors[graph_tensor]; }
  const std::string& out_name(OpId op) const { return tensor(graph.ops[op].outputs[0]).name; }
  // Returns the error of an op that fits no pattern, at the op's place.
  Error misfit(OpId op, const std::string& why) const;

 private:
  std::vector<TensorId> kept_;  // by the graph's TensorId
  std::map<std::vector<TensorId>, TensorId> packed_;
};

// Patterns of experts. fuse_route matches a route. fuse_expert_linears matches one expert_linear, or two with
// the gated op that reads them. fuse_expert_sum matches an expert_sum, and the add that reads it where `add`
// is valid.
Status fuse_route(Fusion& fusion, OpId route);
Status fuse_expert_linears(Fusion& fusion, const std::vector<OpId>& linears, OpId gated,
                           const std::string& name);
Status fuse_expert_sum(Fusion& fusion, OpId sum, OpId add);

// Returns the tables of the route whose experts computed the tensor, which then has a row for each pair of
// token and choice. Returns nullptr where no experts did.
const RouteTables* expert_rows(const Fusion& fusion, TensorId tensor);

// Checks that each cache has at most one attention and one kv_write.
Status check_caches(const Fusion& fusion);

// Matches the attention pattern around an attention op.
Status fuse_attention(Fusion& fusion, OpId attention);

// Tells whether a row grid can compute the op.
bool is_row_op(OpKind kind);
// Adds row grids for ops on rows that no grid holds, and for those whose results a grid reads that no grid
// writes. Puts all grids in the order of their ops.
Status fuse_rows(Fusion& fusion);

// Rounds activations that only products read, in the form in which products read them. Runs once all grids
// exist.
void round_activations(Fusion& fusion);

}  // namespace mkc
