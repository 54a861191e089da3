// Ops on rows that no pattern took in become row grids, which are the fallback of fusion.
//
// A row grid runs a sequence of ops: an optional gather_rows, an optional norm, an optional rope, then steps
// for each element. A sequence is built backwards from its last op, along results that nothing else reads.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ir/bodies.h"
#include "ir/values.h"
#include "scheduler/tiling/fuse_build.h"

namespace mkc {
namespace {

struct SequenceStep {
  mkrt::RowStep kind;
  TensorId operand;  // of the graph; invalid where the step has none
  double value = 0;
};

struct Sequence {
  TensorId x;  // of the graph
  OpId gather, norm, rope;
  std::vector<SequenceStep> steps;
  std::vector<OpId> ops;
};

bool is_norm(OpKind kind) {
  return kind == OpKind::kRmsNorm || kind == OpKind::kLayerNorm || kind == OpKind::kHeadNorm;
}

bool works_on_rows(OpKind kind) {
  return is_norm(kind) || kind == OpKind::kRope || kind == OpKind::kGatherRows ||
         !op_schema(kind).row_steps.empty();
}

// Builds the sequence that ends with an op.
class SequenceBuilder {
 public:
  SequenceBuilder(const Fusion& f, const std::vector<bool>& written) : f_(f), written_(written) {}

  // Returns the sequence. A sample ends a sequence with no step of its own.
  Sequence build(OpId last) {
    const bool samples = op(last).kind == OpKind::kSample;
    sequence_.ops = {last};
    if (samples)
      sequence_.x = op(last).inputs[0];
    else
      put(last);
    while (const std::optional<OpId> before = absorbed(sequence_.x)) {
      sequence_.ops.insert(sequence_.ops.begin(), *before);
      put(*before);
    }
    if (samples && (sequence_.rope.valid() || takes_heads())) return sampled_alone(last);
    return std::move(sequence_);
  }

 private:
  const Op& op(OpId id) const { return f_.graph.ops[id]; }
  bool takes_heads() const { return sequence_.norm.valid() && op(sequence_.norm).kind == OpKind::kHeadNorm; }

  Sequence sampled_alone(OpId last) const { return {op(last).inputs[0], {}, {}, {}, {}, {last}}; }

  // Tells whether the op can come before what the sequence has.
  bool fits(OpId id) const {
    const OpKind kind = op(id).kind;
    if (!works_on_rows(kind) || sequence_.gather.valid()) return false;
    if (kind == OpKind::kGatherRows) return true;
    if (sequence_.norm.valid()) return false;
    if (kind == OpKind::kHeadNorm)
      return !sequence_.rope.valid() ||
             int_attr(op(id).attrs, "head_dim", 0) == int_attr(op(sequence_.rope).attrs, "head_dim", 0);
    if (sequence_.rope.valid()) return false;
    if (is_norm(kind) || kind == OpKind::kRope) return true;
    const auto operands = std::count_if(sequence_.steps.begin(), sequence_.steps.end(),
                                        [](const SequenceStep& s) { return s.operand.valid(); });
    return sequence_.steps.size() + op_schema(kind).row_steps.size() <= mkrt::kMaxRowSteps &&
           static_cast<size_t>(operands) + op_schema(kind).inputs.size() - 1 <= mkrt::kMaxRowOperands;
  }

  // Returns the op that computes the tensor if the sequence can take the op in.
  std::optional<OpId> absorbed(TensorId t) const {
    const OpId id = f_.producer[t.index];
    if (!id.valid() || written_[t.index] || f_.readers[t.index].size() != 1 || !fits(id)) return std::nullopt;
    // The logits of a sample are what the sequence writes, so that they may be an output.
    const bool vanishes = f_.tensor(t).kind == TensorKind::kActivation;
    if (!vanishes && op(f_.readers[t.index][0]).kind != OpKind::kSample) return std::nullopt;
    return id;
  }

  // Puts the op before the sequence. The sequence goes on from one of the op's inputs. A sum or a product of
  // two values goes on from the one that the sequence can take in.
  void put(OpId id) {
    const Op& o = op(id);
    sequence_.x = o.inputs[0];
    if (o.kind == OpKind::kGatherRows) sequence_.gather = id;
    if (o.kind == OpKind::kRope) sequence_.rope = id;
    if (is_norm(o.kind)) sequence_.norm = id;
    const OpSchema& schema = op_schema(o.kind);
    std::vector<SequenceStep> steps;
    for (size_t i = 0; i < schema.row_steps.size(); ++i) {
      SequenceStep step{schema.row_steps[i], {}};
      if (has_operand(step.kind)) step.operand = o.inputs[1];
      if (has_value(step.kind)) step.value = float_attr(o.attrs, schema.float_attrs[i], 0);
      steps.push_back(step);
    }
    sequence_.steps.insert(sequence_.steps.begin(), steps.begin(), steps.end());
    if (o.kind != OpKind::kAdd && o.kind != OpKind::kMul) return;
    if (absorbed(o.inputs[0]) || !absorbed(o.inputs[1])) return;
    std::swap(sequence_.x, sequence_.steps[0].operand);
  }

  const Fusion& f_;
  const std::vector<bool>& written_;  // by the graph's TensorId: a grid writes it
  Sequence sequence_;
};

void read_norm(Fusion& f, GridId grid, OpId norm) {
  const Op& op = f.graph.ops[norm];
  f.read(grid, "norm", f.use_vector(op.inputs[1]));
  if (op.inputs.size() > 2) f.read(grid, "norm_bias", f.use_vector(op.inputs[2]));
  Attrs& attrs = f.program.grids[grid].attrs;
  set_attr(attrs, "eps", float_attr(op.attrs, "eps", 0));
  if (op.kind == OpKind::kLayerNorm) set_attr(attrs, "centered", int64_t{1});
}

void read_rope(Fusion& f, GridId grid, OpId rope) {
  const Op& op = f.graph.ops[rope];
  f.read(grid, "positions", f.use(op.inputs[1]));
  f.read(grid, "rope", f.use(op.inputs[2]));
  set_attr(f.program.grids[grid].attrs, "head_dim", int_attr(op.attrs, "head_dim", 0));
}

void add_steps(Fusion& f, GridId grid, const std::vector<SequenceStep>& steps) {
  uint32_t operands = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    Attrs& attrs = f.program.grids[grid].attrs;
    set_attr(attrs, fmt::format("step{}", i), static_cast<int64_t>(steps[i].kind));
    if (has_value(steps[i].kind)) set_attr(attrs, fmt::format("value{}", i), steps[i].value);
    if (steps[i].operand.valid()) f.read(grid, fmt::format("operand{}", operands++), f.use(steps[i].operand));
  }
}

// Says why no pattern holds the op. Requires an op whose sequence became a grid.
std::string why_alone(const Fusion& f, OpId id) {
  const Op& op = f.graph.ops[id];
  if (op.kind == OpKind::kAdd) return "neither operand is a linear's result that nothing else reads";
  if (is_gated(op.kind))
    return "its operands are not results of plain linears of one input that nothing else reads";
  if (op.kind == OpKind::kSample) return "its operand is not a linear's result that no other op reads";
  if (op.kind == OpKind::kRope || op.kind == OpKind::kHeadNorm)
    return "no attention takes queries and keys with the same positions and table from it";
  const bool joins_products = op.kind == OpKind::kRmsNorm || op.kind == OpKind::kGatherRows;
  if (!joins_products) return "no product's epilogue has it";
  if (f.tensor(op.outputs[0]).kind == TensorKind::kOutput) return "its result is an output";
  const bool is_read = std::any_of(f.graph.ops.begin(), f.graph.ops.end(), [&](const Op& reader) {
    return std::ranges::count(reader.inputs, op.outputs[0]) != 0;
  });
  return is_read ? "not only products read its result" : "nothing reads its result";
}

// Checks that rows of experts meet rows of the same experts alone. With one choice a token, rows of tokens
// are as many.
Status check_rows(const Fusion& f, const Sequence& sequence) {
  for (const OpId id : sequence.ops)
    for (const TensorId input : f.graph.ops[id].inputs)
      if (f.tensor(input).kind == TensorKind::kActivation &&
          expert_rows(f, input) != expert_rows(f, sequence.x))
        return f.misfit(id, "its operands are rows of experts and other rows");
  return {};
}

Status add_row_grid(Fusion& f, const Sequence& sequence) {
  const OpId last = sequence.ops.back();
  const Op& op = f.graph.ops[last];
  const bool samples = op.kind == OpKind::kSample;
  const TensorId made = samples ? op.inputs[0] : op.outputs[0];
  const Tensor& shape = f.tensor(made);
  if (shape.shape.size() != 2 || !shape.shape[1].is_const())
    return f.misfit(last, "its rows have no constant number of columns");
  if (Status alike = check_rows(f, sequence); !alike.ok()) return alike;
  f.current = last;
  const GridId grid = f.add_grid(samples ? shape.name + ".best" : shape.name, BodyKind::kRow,
                                 {{"t", shape.shape[0]}}, sequence.ops);
  f.read(grid, "x", f.use(sequence.x));
  if (sequence.norm.valid()) read_norm(f, grid, sequence.norm);
  if (sequence.rope.valid()) read_rope(f, grid, sequence.rope);
  add_steps(f, grid, sequence.steps);
  if (const RouteTables* routed = expert_rows(f, sequence.x))
    f.read(grid, "active_experts", routed->active_experts);
  if (sequence.gather.valid()) {
    const Expr requests = symbol(step_symbols(f.program.symbols).requests);
    if (Status listed =
            f.require_lists(sequence.gather, {mkrt::kFirstRowSymbol, mkrt::kQLenSymbol}, requests);
        !listed.ok())
      return listed.error();
    set_attr(f.program.grids[grid].attrs, "gather_rows", int64_t{1});
  }
  // A sample's sequence without ops leaves its rows beside the logits, as no two grids write one tensor.
  const bool copies = samples && sequence.x == made;
  f.write(grid, "out",
          copies ? f.add_activation(f.program.grids[grid].name + ".rows", DType::f32, shape.shape, op.loc)
                 : f.use(made));
  if (samples) {
    const auto [value, index] = f.best.at(last);
    f.write(grid, "best_value", value);
    f.write(grid, "best_index", index);
  }
  const int64_t columns = row_columns(f.program, f.program.grids[grid]);
  f.program.grids[grid].coords.push_back({"c", ceil_div(shape.shape[1], columns)});
  f.unfused[f.program.grids[grid].name] = why_alone(f, last);
  return {};
}

// Puts every grid where the op was visited that it was made for.
void sort_grids(Fusion& f) {
  std::vector<uint32_t> order(f.program.grids.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](uint32_t i) {
    return std::tuple(f.made_for[i], f.program.grids[GridId{i}].body != BodyKind::kRow, i);
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  Table<GridId, TaskGrid> sorted;
  for (const uint32_t i : order) sorted.add(std::move(f.program.grids[GridId{i}]));
  f.program.grids = std::move(sorted);
}

}  // namespace

bool is_row_op(OpKind kind) {
  return works_on_rows(kind);
}

Status fuse_rows(Fusion& f) {
  std::vector<bool> written(f.graph.tensors.size(), false);  // by the graph's TensorId
  for (const TensorId t : f.graph.tensors.ids())
    if (f.keeps(t))
      for (const TaskGrid& grid : f.program.grids)
        written[t.index] =
            written[t.index] || std::any_of(grid.writes.begin(), grid.writes.end(),
                                            [&](const Access& a) { return a.tensor == f.use(t); });
  bool any = false;
  for (uint32_t i = static_cast<uint32_t>(f.graph.ops.size()); i-- > 0;) {
    const OpId id{i};
    const Op& op = f.graph.ops[id];
    if (!f.best.contains(id)) {
      if (!is_row_op(op.kind)) continue;
      const TensorId out = op.outputs[0];
      const bool wanted = !f.taken[i] || f.keeps(out) || f.tensor(out).kind == TensorKind::kOutput;
      if (!wanted || written[out.index]) continue;
    }
    const Sequence sequence = SequenceBuilder(f, written).build(id);
    if (Status s = add_row_grid(f, sequence); !s.ok()) return s;
    if (op.kind == OpKind::kSample && sequence.x != op.inputs[0]) written[op.inputs[0].index] = true;
    any = true;
  }
  if (any) sort_grids(f);
  return {};
}

}  // namespace mkc
