#include "scheduler/tiling/fuse.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "ir/domain.h"
#include "ir/footprint.h"
#include "ir/values.h"
#include "scheduler/tiling/fuse_build.h"

namespace mkc {
namespace {

// ProductPattern is a product of the weights of `linears`, which share their input. `epilogue` is the op that
// reads their results, or an invalid id. The `out` of its grid is the result of the last of its ops.
struct ProductPattern {
  std::vector<OpId> linears;
  OpId epilogue;
  TensorId residual;  // invalid where there is none
  std::string name;
};

GridId add_product(Fusion& f, const ProductPattern& p) {
  const Op& linear = f.graph.ops[p.linears[0]];
  std::vector<OpId> ops = p.linears;
  TensorId source = linear.inputs[0];
  // Takes an op that the product applies to its input. gather_rows and the norm may come in any order.
  const auto take = [&](OpKind kind) {
    const OpId id = f.producer_of(source, kind);
    if (!id.valid()) return id;
    ops.insert(ops.begin(), id);
    source = f.graph.ops[id].inputs[0];
    return id;
  };
  OpId gather = take(OpKind::kGatherRows);
  const OpId norm = take(OpKind::kRmsNorm);
  if (!gather.valid()) gather = take(OpKind::kGatherRows);
  if (p.epilogue.valid()) ops.push_back(p.epilogue);
  const Op& last = f.graph.ops[ops.back()];

  std::vector<TensorId> sources;
  for (OpId op : p.linears) sources.push_back(f.graph.ops[op].inputs[1]);
  const bool paired = sources.size() == 2;
  const TensorId weight = f.use_packed(sources, paired ? kPairedRows : 0, p.name);
  const Expr rows = f.program.tensors[weight].shape[0];
  const GridId grid = f.add_grid(p.name, BodyKind::kProduct, {{"j", ceil_div(rows, kTileRows)}}, ops);

  const TensorId x = f.use(source);
  f.read(grid, "x", x);
  f.read(grid, "weight", weight, true);
  if (norm.valid()) {
    f.read(grid, "norm", f.use_vector(f.graph.ops[norm].inputs[1]));
    set_attr(f.program.grids[grid].attrs, "eps", float_attr(f.graph.ops[norm].attrs, "eps", 0));
  }
  if (linear.inputs.size() == 3) f.read(grid, "bias", f.use_vector(linear.inputs[2]));
  if (gather.valid()) set_attr(f.program.grids[grid].attrs, "gather_rows", int64_t{1});
  if (paired) set_attr(f.program.grids[grid].attrs, "gate", static_cast<int64_t>(gate_of(last.kind)));

  const TensorId graph_out = last.kind == OpKind::kSample ? last.inputs[0] : last.outputs[0];
  const TensorId out = f.use(graph_out);
  if (p.residual.valid()) f.read(grid, "residual", f.use(p.residual));
  f.write(grid, "out", out);
  return grid;
}

void fuse_embed(Fusion& f, OpId id) {
  const Op& op = f.graph.ops[id];
  const TensorId tokens = f.use(op.inputs[0]);
  const TensorId table = f.use_packed({op.inputs[1]}, 0, f.tensor(op.inputs[1]).name);
  const TensorId out = f.use(op.outputs[0]);
  const std::vector<Expr> shape = f.program.tensors[out].shape;
  const GridId grid = f.add_grid("embed", BodyKind::kEmbed, {{"t", shape[0]}}, {id});
  f.read(grid, "tokens", tokens);
  f.read(grid, "table", table);
  f.write(grid, "out", out);
}

// Returns the operand of an add that a product can add in its epilogue: the result of a linear that only the
// add reads. The second operand is preferred. 2 means neither operand.
size_t summand(const Fusion& f, OpId add) {
  const std::vector<TensorId>& inputs = f.graph.ops[add].inputs;
  for (size_t i : {1, 0})
    if (f.sole_producer_of(inputs[i], OpKind::kLinear).valid()) return i;
  return 2;
}

// Returns the two linears of a gated op that one grid can compute with it. They are plain ones of one input,
// or of the same experts, and nothing else reads their results. The ids are invalid where there are none.
std::pair<OpId, OpId> gated_linears(const Fusion& f, OpId gated) {
  const std::vector<TensorId>& inputs = f.graph.ops[gated].inputs;
  const bool experts = f.producer_of(inputs[0], OpKind::kExpertLinear).valid();
  const OpKind kind = experts ? OpKind::kExpertLinear : OpKind::kLinear;
  const OpId gate = f.sole_producer_of(inputs[0], kind), up = f.sole_producer_of(inputs[1], kind);
  if (!gate.valid() || !up.valid()) return {};
  const Op &a = f.graph.ops[gate], &b = f.graph.ops[up];
  if (a.inputs[0] != b.inputs[0]) return {};
  // Experts have a bias for both linears or for none, other products for none.
  if (experts ? a.inputs[1] != b.inputs[1] || a.inputs.size() != b.inputs.size()
              : a.inputs.size() != 2 || b.inputs.size() != 2)
    return {};
  const auto dtype = [&](const Op& op) { return f.tensor(op.inputs[experts ? 2 : 1]).dtype; };
  if (dtype(a) != dtype(b)) return {};  // a packed weight has one format
  return {gate, up};
}

// Returns the product whose epilogue finds the best of each strip for a sample, or an invalid id where there
// is none.
OpId sampled_linear(const Fusion& f, OpId sample) {
  const TensorId logits = f.graph.ops[sample].inputs[0];
  return f.readers[logits.index].size() == 1 ? f.producer_of(logits, OpKind::kLinear) : OpId{};
}

// Tells whether an op depends on the result of another. Ops come after those that they depend on.
bool depends_on(const Fusion& f, OpId op, OpId other) {
  std::vector<OpId> left{op};
  std::set<uint32_t> seen;
  while (!left.empty()) {
    const OpId at = left.back();
    left.pop_back();
    if (at == other) return true;
    if (at.index < other.index || !seen.insert(at.index).second) continue;
    for (const TensorId input : f.graph.ops[at].inputs)
      if (const OpId before = f.producer[input.index]; before.valid()) left.push_back(before);
  }
  return false;
}

// Returns the expert_sum whose grid takes in an add, or an invalid id where there is none. The other operand
// is computed before the experts, as that of a residual. A product takes in its add first, as that of a
// shared expert.
OpId summed_experts(const Fusion& f, OpId add) {
  if (summand(f, add) != 2) return {};
  const std::vector<TensorId>& inputs = f.graph.ops[add].inputs;
  for (size_t i = 0; i < 2; ++i) {
    const OpId sum = f.sole_producer_of(inputs[i], OpKind::kExpertSum),
               other = f.producer[inputs[1 - i].index];
    if (sum.valid() && (!other.valid() || depends_on(f, sum, other))) return sum;
  }
  return {};
}

// Tells whether another op's pattern computes the linear.
bool has_epilogue(const Fusion& f, OpId linear) {
  const TensorId out = f.graph.ops[linear].outputs[0];
  for (OpId reader : f.readers[out.index]) {
    const Op& op = f.graph.ops[reader];
    if (is_gated(op.kind) && gated_linears(f, reader).first.valid()) return true;
    if (op.kind == OpKind::kSample && sampled_linear(f, reader) == linear) return true;
    if (const size_t i = op.kind == OpKind::kAdd ? summand(f, reader) : 2; i < 2 && op.inputs[i] == out)
      return true;
  }
  return false;
}

Status fuse_add(Fusion& f, OpId id) {
  if (const OpId sum = summed_experts(f, id); sum.valid()) return fuse_expert_sum(f, sum, id);
  const size_t i = summand(f, id);
  if (i == 2) return {};
  const std::vector<TensorId>& inputs = f.graph.ops[id].inputs;
  const OpId linear = f.producer[inputs[i].index];
  add_product(f, {{linear}, id, inputs[1 - i], f.out_name(linear)});
  return {};
}

Status fuse_gated(Fusion& f, OpId id) {
  const auto [gate, up] = gated_linears(f, id);
  if (!gate.valid()) return {};
  const std::string& up_name = f.out_name(up);
  const size_t dot = up_name.find_last_of('.');
  const std::string last_part = dot == std::string::npos ? up_name : up_name.substr(dot + 1);
  const std::string name = f.out_name(gate) + "_" + last_part;
  if (f.graph.ops[gate].kind == OpKind::kExpertLinear) return fuse_expert_linears(f, {gate, up}, id, name);
  add_product(f, {{gate, up}, id, {}, name});
  return {};
}

// The product that computes the logits also leaves the best value and index of each strip. A greedy sample
// needs no other logits.
Status fuse_sample(Fusion& f, OpId id) {
  const Op& op = f.graph.ops[id];
  const OpId linear = sampled_linear(f, id);
  const GridId product = linear.valid() ? add_product(f, {{linear}, id, {}, f.out_name(linear)}) : GridId{};
  const TensorId logits = f.use(op.inputs[0]), next = f.use(op.outputs[0]);
  const Expr vocab = f.program.tensors[logits].shape[1];
  if (vocab.constant() > kMaxSampled)
    return f.misfit(id, fmt::format("its vocabulary has {} entries, at most {} are supported",
                                    vocab.constant(), kMaxSampled));
  const Expr rows = f.tensor(op.inputs[0]).shape[0], requests = f.tensor(op.outputs[0]).shape[0];
  if (Status listed = f.require_lists(id, {mkrt::kFirstRowSymbol, mkrt::kQLenSymbol}, requests); !listed.ok())
    return listed.error();
  const Expr strips = ceil_div(vocab, kTileRows);
  const std::string name = product.valid() ? f.program.grids[product].name : f.out_name(id);
  const TensorId value = f.add_activation(name + ".best_value", DType::f32, {rows, strips}, op.loc);
  const TensorId index = f.add_activation(name + ".best_index", DType::i32, {rows, strips}, op.loc);
  const GridId sample = f.add_grid("sample", BodyKind::kSample, {{"b", requests}}, {id});
  f.read(sample, "logits", logits);
  for (auto [role, t] : {std::pair{"best_value", value}, {"best_index", index}}) {
    if (product.valid()) f.write(product, role, t);
    f.read(sample, role, t);
  }
  if (!product.valid()) f.best[id] = {value, index};
  f.write(sample, "next", next);
  return {};
}

Status fuse_op(Fusion& f, OpId id) {
  switch (f.graph.ops[id].kind) {
    case OpKind::kEmbed:
      fuse_embed(f, id);
      return {};
    case OpKind::kLinear:
      if (!has_epilogue(f, id)) add_product(f, {{id}, {}, {}, f.out_name(id)});
      return {};
    case OpKind::kAdd:
      return fuse_add(f, id);
    case OpKind::kAttention:
      return fuse_attention(f, id);
    case OpKind::kSample:
      return fuse_sample(f, id);
    case OpKind::kRoute:
      return fuse_route(f, id);
    case OpKind::kExpertLinear:
      if (const OpId gated = f.sole_gated_reader_of(id);
          gated.valid() && gated_linears(f, gated).first.valid())
        return {};
      return fuse_expert_linears(f, {id}, {}, f.out_name(id));
    case OpKind::kExpertSum:
      if (const OpId add = f.sole_reader_of(id, OpKind::kAdd); add.valid() && summed_experts(f, add) == id)
        return {};
      return fuse_expert_sum(f, id, {});
    case OpKind::kGatherRows:
    case OpKind::kRmsNorm:
    case OpKind::kHeadNorm:
    case OpKind::kRope:
    case OpKind::kKvWrite:
      return {};  // ops that read their results take them into their grids
    case OpKind::kLayerNorm:
      return {};  // a row grid takes it
    default:
      MKC_ASSERT(is_row_op(f.graph.ops[id].kind), "op of unknown kind");
      return is_gated(f.graph.ops[id].kind) ? fuse_gated(f, id) : Status();
  }
}

// Checks that every op is part of a grid, and that no grid needs a tensor that was fused away.
Status check_complete(const Fusion& f) {
  std::vector<bool> written(f.program.tensors.size(), false);
  for (const TaskGrid& grid : f.program.grids) {
    for (const Access& read : grid.reads) {
      const Tensor& t = f.program.tensors[read.tensor];
      const bool computed = t.kind == TensorKind::kActivation || t.kind == TensorKind::kOutput;
      if (computed && !written[read.tensor.index])
        return f.misfit(grid.ops.back(), fmt::format("no task before it writes its operand %{}", t.name));
    }
    for (const Access& write : grid.writes) written[write.tensor.index] = true;
  }
  for (OpId op : f.graph.ops.ids()) {
    if (!f.taken[op.index]) return f.misfit(op, "no pattern holds it together with the ops around it");
    for (TensorId t : f.graph.ops[op].outputs)
      if (f.tensor(t).kind == TensorKind::kOutput && !f.keeps(t))
        return f.misfit(op, fmt::format("its result %{} is an output", f.tensor(t).name));
  }
  return {};
}

// Checks the number of tasks of each grid.
Status check_tasks(const Fusion& f) {
  const Domain at_symbols{symbol_bounds(f.program.symbols), {}, {}};
  for (const TaskGrid& grid : f.program.grids)
    if (!has_few_tasks(grid, at_symbols))
      return f.misfit(
          grid.ops.back(),
          fmt::format("grid %{} has more than {} tasks, fewer with a smaller --context, --max-requests or "
                      "--max-tokens",
                      grid.name, kMaxTasks));
  return {};
}

}  // namespace

Result<TaskProgram> fuse(const OpGraph& graph, const FuseOptions& options,
                         std::map<std::string, std::string>* unfused) {
  Fusion fusion(graph, options.workers);
  if (Status s = check_caches(fusion); !s.ok()) return s.error();
  for (OpId op : graph.ops.ids()) {
    fusion.current = op;
    if (Status s = fuse_op(fusion, op); !s.ok()) return s.error();
  }
  if (Status s = fuse_rows(fusion); !s.ok()) return s.error();
  if (unfused) *unfused = fusion.unfused;
  if (Status s = check_complete(fusion); !s.ok()) return s.error();
  if (Status s = check_tasks(fusion); !s.ok()) return s.error();
  // Callers bind every input of the graph, whether a task reads it or not.
  for (const TensorId t : graph.tensors.ids())
    if (graph.tensors[t].kind == TensorKind::kInput) fusion.use(t);
  round_activations(fusion);
  for (TaskGrid& grid : fusion.program.grids) declare_regions(fusion.program, grid);
  for (const RopeTable& rope : graph.ropes)
    fusion.program.ropes.push_back({fusion.use(rope.tensor), rope.inv_freq, rope.scale});
  if (options.wgmma_from != 0) set_wgmma_from(fusion.program, options.wgmma_from);
  return std::move(fusion.program);
}

void set_fp8_from(TaskProgram& program, uint32_t fp8_from) {
  for (TaskGrid& grid : program.grids)
    if (grid.body == BodyKind::kProduct && multiplies_e4m3(program, grid))
      set_attr(grid.attrs, "fp8_from", int64_t{fp8_from});
}

void set_wgmma_from(TaskProgram& program, uint32_t wgmma_from) {
  for (TaskGrid& grid : program.grids)
    if (grid.body == BodyKind::kProduct) set_attr(grid.attrs, "wgmma_from", int64_t{wgmma_from});
}

}  // namespace mkc
