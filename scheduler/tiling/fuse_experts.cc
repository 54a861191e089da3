#include <fmt/format.h>

#include "ir/bodies.h"
#include "ir/ceil.h"
#include "ir/values.h"
#include "runtime/abi/packing.h"
#include "scheduler/tiling/fuse_build.h"

namespace mkc {
namespace {

static_assert(kMaxStrips == mkrt::kBlockStrips);

// Returns the strips of a task: as many as are multiplied together. Larger tasks must not give the busiest
// worker more strips than tasks of one strip would, with the fewest experts active.
int64_t strips_of_task(int64_t strips, int64_t experts, int64_t workers, const Tensor& weight) {
  const auto max = [&](int64_t of_task) {
    return ceil_of(ceil_of(strips, of_task) * experts, workers) * of_task;
  };
  int64_t best = 1;
  for (int64_t n = 2; n <= weight_format(weight).block_strips; ++n)
    if (max(n) <= max(1)) best = n;
  return best;
}

}  // namespace

const RouteTables* expert_rows(const Fusion& f, TensorId t) {
  const OpId op = f.producer[t.index];
  if (!op.valid()) return nullptr;
  const std::vector<TensorId>& inputs = f.graph.ops[op].inputs;
  if (is_row_op(f.graph.ops[op].kind)) return expert_rows(f, inputs[0]);
  const auto route =
      f.graph.ops[op].kind == OpKind::kExpertLinear ? f.routes.find(inputs[1]) : f.routes.end();
  return route == f.routes.end() ? nullptr : &route->second;
}

Status fuse_route(Fusion& f, OpId id) {
  const Op& op = f.graph.ops[id];
  const TensorId logits = f.use(op.inputs[0]), routing_weight = f.use(op.outputs[1]);
  const Expr tokens = f.program.tensors[logits].shape[0], experts = f.program.tensors[logits].shape[1];
  const int64_t top_k = int_attr(op.attrs, "top_k", 1);
  if (experts.constant() > kMaxExperts || top_k > kMaxTopK)
    return f.misfit(id, fmt::format("it chooses {} of {} experts, at most {} of {} are supported", top_k,
                                    experts.constant(), kMaxTopK, kMaxExperts));
  if (!f.add_active_experts(experts.constant(), top_k, tokens, op.loc))
    return f.misfit(id, "an earlier route has other numbers of experts or choices");
  const GridId grid = f.add_grid(f.out_name(id), BodyKind::kRoute, {}, {id});
  const std::string name = f.program.grids[grid].name;
  f.program.grids[grid].attrs = op.attrs;
  RouteTables tables;
  const Expr rows = top_k * tokens;
  tables.active_experts = f.add_activation(name + ".active_experts", DType::i32, {1}, op.loc);
  tables.expert = f.add_activation(name + ".expert", DType::i32, {experts}, op.loc);
  tables.active_expert_rows = f.add_activation(name + ".active_expert_rows", DType::i32, {experts}, op.loc);
  tables.active_expert_begin = f.add_activation(name + ".active_expert_begin", DType::i32, {experts}, op.loc);
  tables.token = f.add_activation(name + ".token", DType::i32, {rows}, op.loc);
  tables.row = f.add_activation(name + ".row", DType::i32, {tokens, top_k}, op.loc);
  f.read(grid, "logits", logits);
  for (auto [role, t] : {std::pair{"routing_weight", routing_weight},
                         {"active_experts", tables.active_experts},
                         {"expert", tables.expert},
                         {"active_expert_rows", tables.active_expert_rows},
                         {"active_expert_begin", tables.active_expert_begin},
                         {"token", tables.token},
                         {"row", tables.row}})
    f.write(grid, role, t);
  f.routes[op.outputs[0]] = tables;
  return {};
}

Status fuse_expert_linears(Fusion& f, const std::vector<OpId>& linears, OpId gated, const std::string& name) {
  const Op& linear = f.graph.ops[linears[0]];
  const OpId last = gated.valid() ? gated : linears[0];
  for (const OpId op : linears)
    if (f.graph.ops[op].inputs[1] != linear.inputs[1])
      return f.misfit(last, "its linears follow different choices");
  const auto route = f.routes.find(linear.inputs[1]);
  if (route == f.routes.end()) return f.misfit(last, "its choice is no route's");
  const RouteTables& tables = route->second;
  const bool of_tokens = expert_rows(f, linear.inputs[0]) == nullptr;
  const OpId norm = of_tokens ? f.producer_of(linear.inputs[0], OpKind::kRmsNorm) : OpId{};
  std::vector<OpId> ops = linears;
  if (norm.valid()) ops.insert(ops.begin(), norm);
  if (gated.valid()) ops.push_back(gated);

  std::vector<TensorId> sources;
  for (const OpId op : linears) sources.push_back(f.graph.ops[op].inputs[2]);
  const bool paired = gated.valid();
  const TensorId weight = f.use_packed(sources, paired ? kPairedRows : 0, name);
  const std::vector<Expr> shape = f.program.tensors[weight].shape;
  const int64_t top_k = f.tensor(linear.inputs[1]).shape[1].constant();
  const int64_t strips =
      strips_of_task(ceil_of(shape[1].constant(), kTileRows), top_k, f.workers, f.program.tensors[weight]);
  const GridId grid =
      f.add_grid(name, BodyKind::kExpert,
                 {{"j", ceil_div(shape[1], strips * kTileRows)}, {"s", f.active_experts()}}, ops);
  if (of_tokens) {
    const TensorId x = f.use(norm.valid() ? f.graph.ops[norm].inputs[0] : linear.inputs[0]);
    f.read(grid, "x", x);
    f.read(grid, "token", tables.token);
  } else {
    f.read(grid, "rows", f.use(linear.inputs[0]));
  }
  f.read(grid, "weight", weight, true);
  for (auto [role, t] : {std::pair{"active_experts", tables.active_experts},
                         {"expert", tables.expert},
                         {"active_expert_rows", tables.active_expert_rows},
                         {"active_expert_begin", tables.active_expert_begin}})
    f.read(grid, role, t);
  if (norm.valid()) {
    f.read(grid, "norm", f.use_vector(f.graph.ops[norm].inputs[1]));
    set_attr(f.program.grids[grid].attrs, "eps", float_attr(f.graph.ops[norm].attrs, "eps", 0));
  }
  for (size_t i = 0; i < linears.size(); ++i)
    if (const std::vector<TensorId>& inputs = f.graph.ops[linears[i]].inputs; inputs.size() > 3)
      f.read(grid, i == 0 ? "bias" : "up_bias", f.use_vector(inputs[3]));
  set_attr(f.program.grids[grid].attrs, "top_k", top_k);
  if (strips > 1) set_attr(f.program.grids[grid].attrs, "strips", strips);
  if (paired)
    set_attr(f.program.grids[grid].attrs, "gate", static_cast<int64_t>(gate_of(f.graph.ops[gated].kind)));
  f.write(grid, "out", f.use(f.graph.ops[last].outputs[0]));
  return {};
}

Status fuse_expert_sum(Fusion& f, OpId sum, OpId add) {
  const Op& op = f.graph.ops[sum];
  const OpId last = add.valid() ? add : sum;
  const OpId linear = f.sole_producer_of(op.inputs[0], OpKind::kExpertLinear);
  const OpId route = f.producer_of(op.inputs[1], OpKind::kRoute);
  if (!linear.valid() || !route.valid() || f.graph.ops[linear].inputs[1] != f.graph.ops[route].outputs[0])
    return f.misfit(sum, "its operands are not the results and routing weights of one choice");
  const RouteTables& tables = f.routes.at(f.graph.ops[route].outputs[0]);
  const TensorId out = f.use(f.graph.ops[last].outputs[0]);
  const std::vector<Expr> shape = f.program.tensors[out].shape;
  const GridId grid = f.add_grid(f.out_name(sum), BodyKind::kExpertSum,
                                 {{"t", shape[0]}, {"c", ceil_div(shape[1], kExpertSumColumns)}},
                                 add.valid() ? std::vector{sum, add} : std::vector{sum});
  f.read(grid, "x", f.use(op.inputs[0]));
  f.read(grid, "routing_weight", f.use(op.inputs[1]));
  f.read(grid, "active_experts", tables.active_experts);
  f.read(grid, "row", tables.row);
  if (add.valid()) {
    const std::vector<TensorId>& inputs = f.graph.ops[add].inputs;
    f.read(grid, "residual", f.use(inputs[inputs[0] == op.outputs[0] ? 1 : 0]));
  }
  f.write(grid, "out", out);
  return {};
}

}  // namespace mkc
