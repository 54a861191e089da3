#include <fmt/format.h>

#include "ir/verifier.h"

namespace mkc {
namespace {

constexpr double kMinSoftCap = 1e-6;  // smaller ones overflow when divided by

Site op_site(const OpGraph& graph, OpId id) {
  const Op& op = graph.ops[id];
  return {{Part::kOp, id.index}, fmt::format("op {} ({})", id.index, op_schema(op.kind).name), &op.loc};
}

bool ends_optional(const std::vector<RoleSchema>& roles) {
  return !roles.empty() && std::string_view(roles.back().name).ends_with('?');
}

// Checks V10.
bool check_counts(Verifier& v, const Op& op, const Site& site) {
  const OpSchema& schema = op_schema(op.kind);
  const auto fits_count = [&](const char* what, size_t count, const std::vector<RoleSchema>& roles) {
    const size_t min = roles.size() - (ends_optional(roles) ? 1 : 0);
    if (count >= min && count <= roles.size()) return true;
    const std::string range =
        min < roles.size() ? fmt::format("{} or {}", min, roles.size()) : std::to_string(min);
    v.report(10, site, fmt::format("{} {}, expected {}", count, what, range));
    return false;
  };
  const bool inputs = fits_count("inputs", op.inputs.size(), schema.inputs);
  return fits_count("outputs", op.outputs.size(), schema.outputs) && inputs;
}

// Checks that heads have whole width (V12, V13). The letters of OperandSchema cannot say this.
void check_heads(Verifier& v, const Op& op, const Site& site) {
  if (op.kind == OpKind::kHeadNorm || op.kind == OpKind::kRope) {
    const Expr& columns = v.tensors[op.inputs[0]].shape[1];
    const int64_t head_dim = int_attr(op.attrs, "head_dim", 0);
    if (!columns.is_const() || head_dim == 0 || columns.constant() % head_dim != 0)
      v.report(12, site, fmt::format("{} columns of x are no heads of {}", v.text.expr(columns), head_dim));
  }
  if (op.kind == OpKind::kKvWrite) {
    const Expr& columns = v.tensors[op.inputs[0]].shape[1];
    const std::vector<Expr>& cache = v.tensors[op.outputs[0]].shape;
    if (cache[1] * cache[3] != columns)
      v.report(12, site,
               fmt::format("{} columns of k are not the {} heads of {} of the cache", v.text.expr(columns),
                           v.text.expr(cache[1]), v.text.expr(cache[3])));
  }
  const int64_t kv_heads = int_attr(op.attrs, "kv_heads", 1);
  if (op.kind == OpKind::kAttention && (kv_heads == 0 || int_attr(op.attrs, "heads", 0) % kv_heads != 0))
    v.report(13, site, fmt::format("{} heads share {} kv_heads", int_attr(op.attrs, "heads", 0), kv_heads));
}

// Checks that rows are pairs of a token and one of its choices (V12, V13). The letters of OperandSchema
// cannot say this.
void check_pairs(Verifier& v, const Op& op, const Site& site) {
  const auto shape = [&](TensorId t) { return v.tensors[t].shape; };
  const auto check_rows = [&](const char* role, TensorId t, const std::vector<Expr>& choices,
                              bool or_tokens) {
    const Expr rows = shape(t)[0], pairs = choices[1] * choices[0];
    if (rows == pairs || (or_tokens && rows == choices[0])) return;
    v.report(12, site,
             fmt::format("{} {} has {} rows, expected {}{}", role, v.text.tensor(t), v.text.expr(rows),
                         or_tokens ? v.text.expr(choices[0]) + " or " : "", v.text.expr(pairs)));
  };
  if (op.kind == OpKind::kExpertLinear) {
    check_rows("x", op.inputs[0], shape(op.inputs[1]), true);
    check_rows("out", op.outputs[0], shape(op.inputs[1]), false);
  }
  if (op.kind == OpKind::kExpertSum) check_rows("x", op.inputs[0], shape(op.inputs[1]), false);
  if (op.kind != OpKind::kRoute) return;
  const Expr experts = shape(op.inputs[0])[1];
  const int64_t top_k = int_attr(op.attrs, "top_k", 0);
  if (top_k < 1 || !experts.is_const() || top_k > experts.constant())
    v.report(13, site, fmt::format("it chooses {} of {} experts", top_k, v.text.expr(experts)));
}

// Experts has the number of experts of each route's outputs.
using Experts = std::map<TensorId, Expr>;

// Checks that each stack has a matrix for each expert of the route that made its choices (V13).
void check_experts(Verifier& v, const Op& op, const Site& site, Experts& experts) {
  if (op.kind == OpKind::kRoute)
    for (const TensorId out : op.outputs) experts.insert_or_assign(out, v.tensors[op.inputs[0]].shape[1]);
  if (op.kind != OpKind::kExpertLinear) return;
  const auto route = experts.find(op.inputs[1]);
  const Expr& stacked = v.tensors[op.inputs[2]].shape[0];
  if (route != experts.end() && route->second != stacked)
    v.report(
        13, site,
        fmt::format("weight {} has {} experts, expected {}, those of choice {}", v.text.tensor(op.inputs[2]),
                    v.text.expr(stacked), v.text.expr(route->second), v.text.tensor(op.inputs[1])));
}

// Checks V11 and V12, and V13 of heads and experts. Requires the counts of V10 and the attributes of V13.
void check_operands(Verifier& v, const Op& op, const Site& site, Experts& experts) {
  const OpSchema& schema = op_schema(op.kind);
  Sizes sizes;
  for (const NamedDim& dim : dims_of(op.attrs)) sizes.emplace(dim.letter, dim.size);
  bool fit = true;
  const auto check = [&](const std::vector<RoleSchema>& roles, const std::vector<TensorId>& ids) {
    for (size_t i = 0; i < ids.size(); ++i)
      fit &= v.check_operand(11, role_name(roles[i].name), ids[i], roles[i].operand, sizes, site);
  };
  check(schema.inputs, op.inputs);
  check(schema.outputs, op.outputs);
  if (fit) check_heads(v, op, site);
  if (fit) check_pairs(v, op, site);
  if (fit) check_experts(v, op, site, experts);
}

// Checks V14.
void check_op_order(Verifier& v, const OpGraph& graph) {
  std::vector<bool> written(graph.tensors.size(), false);
  for (OpId id : graph.ops.ids()) {
    const Site site = op_site(graph, id);
    for (TensorId t : graph.ops[id].inputs)
      if (is_computed(graph.tensors[t].kind) && !written[t.index])
        v.report(14, site, fmt::format("no op before it writes its input {}", v.text.tensor(t)));
    for (TensorId t : graph.ops[id].outputs) {
      const TensorKind kind = graph.tensors[t].kind;
      if (is_computed(kind) && written[t.index])
        v.report(14, site, fmt::format("an earlier op writes {} too", v.text.tensor(t)));
      if (!is_computed(kind) && kind != TensorKind::kCache)
        v.report(14, site, fmt::format("it writes the {} {}", keyword(kind), v.text.tensor(t)));
      written[t.index] = true;
    }
  }
  for (TensorId t : graph.tensors.ids())
    if (graph.tensors[t].kind == TensorKind::kOutput && !written[t.index])
      v.report(14, v.tensor_site(t), "no op writes this output");
}

// Checks V1 to V4 of an op graph.
void check_form(Verifier& v, const OpGraph& graph) {
  v.check_names_and_symbols();
  for (OpId id : graph.ops.ids())
    for (const auto* list : {&graph.ops[id].inputs, &graph.ops[id].outputs})
      for (TensorId t : *list)
        v.check_id(graph.tensors.contains(t), op_site(graph, id), "tensor " + v.text.tensor(t));
  v.check_rope_ids(graph.ropes);
  if (v.errors.empty()) v.check_shapes();
}

// V13: a soft cap is more than 0, and limits are in order.
void check_values(Verifier& v, const Op& op, const Site& site) {
  if (op.kind == OpKind::kSoftCap && float_attr(op.attrs, "cap", 0) < kMinSoftCap)
    v.report(13, site,
             fmt::format("attribute cap is {}, expected at least {}",
                         spell_double(float_attr(op.attrs, "cap", 0)), kMinSoftCap));
  const double min = float_attr(op.attrs, "min", 0), max = float_attr(op.attrs, "max", 0);
  if (op.kind == OpKind::kClamp && min > max)
    v.report(
        13, site,
        fmt::format("attribute min is {}, expected at most max, {}", spell_double(min), spell_double(max)));
}

}  // namespace

std::vector<Error> verify(const OpGraph& graph, const Places* places) {
  Verifier v(graph.name, graph.symbols, graph.tensors, places);
  check_form(v, graph);
  if (!v.errors.empty()) return v.errors;
  v.check_tensors(graph.ropes);
  v.check_routed_symbols();
  for (SymbolId id : graph.symbols.ids()) {
    if (graph.symbols[id].routed) v.report(31, v.symbol_site(id), "ops have no routed symbols");
    if (graph.symbols[id].cut) v.report(32, v.symbol_site(id), "ops have no cut symbols");
  }
  Experts experts;
  for (OpId id : graph.ops.ids()) {
    const Op& op = graph.ops[id];
    const Site site = op_site(graph, id);
    v.check_attr_order(op.attrs, site);
    const OpSchema& schema = op_schema(op.kind);
    const bool attrs = v.check_attrs(13, op.attrs, schema.int_attrs, schema.float_attrs, site);
    if (attrs) check_values(v, op, site);
    if (check_counts(v, op, site) && attrs) check_operands(v, op, site, experts);
  }
  check_op_order(v, graph);
  return v.errors;
}

}  // namespace mkc
