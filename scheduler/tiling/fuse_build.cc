#include "scheduler/tiling/fuse_build.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/values.h"

namespace mkc {

Fusion::Fusion(const OpGraph& op_graph, uint32_t of_workers)
    : graph(op_graph),
      workers(of_workers),
      producer(graph.tensors.size()),
      readers(graph.tensors.size()),
      taken(graph.ops.size(), false),
      kept_(graph.tensors.size()) {
  program.name = graph.name;
  program.symbols = graph.symbols;
  for (OpId op : graph.ops.ids()) {
    for (TensorId t : graph.ops[op].inputs) readers[t.index].push_back(op);
    for (TensorId t : graph.ops[op].outputs) producer[t.index] = op;
  }
}

OpId Fusion::producer_of(TensorId t, OpKind kind) const {
  const OpId op = producer[t.index];
  return op.valid() && graph.ops[op].kind == kind ? op : OpId{};
}

OpId Fusion::sole_producer_of(TensorId t, OpKind kind) const {
  const bool vanishes = readers[t.index].size() == 1 && tensor(t).kind == TensorKind::kActivation;
  return vanishes ? producer_of(t, kind) : OpId{};
}

OpId Fusion::sole_reader_of(OpId op) const {
  const TensorId out = graph.ops[op].outputs[0];
  const OpId reader = readers[out.index].size() == 1 ? readers[out.index][0] : OpId{};
  return reader.valid() && sole_producer_of(out, graph.ops[op].kind) == op ? reader : OpId{};
}

OpId Fusion::sole_reader_of(OpId op, OpKind kind) const {
  const OpId reader = sole_reader_of(op);
  return reader.valid() && graph.ops[reader].kind == kind ? reader : OpId{};
}

OpId Fusion::sole_gated_reader_of(OpId op) const {
  const OpId reader = sole_reader_of(op);
  return reader.valid() && is_gated(graph.ops[reader].kind) ? reader : OpId{};
}

TensorId Fusion::use(TensorId graph_tensor) {
  TensorId& id = kept_[graph_tensor.index];
  if (!id.valid()) id = program.tensors.add(tensor(graph_tensor));
  return id;
}

TensorId Fusion::use_vector(TensorId graph_tensor) {
  const TensorId id = use(graph_tensor);
  program.tensors[id].dtype = DType::f32;
  return id;
}

TensorId Fusion::use_packed(const std::vector<TensorId>& sources, int64_t group, const std::string& name) {
  TensorId& id = packed_[sources];
  if (id.valid()) return id;
  Tensor packed = tensor(sources[0]);
  packed.name = name + ".packed";
  packed.source.clear();
  Expr& rows = packed.shape[packed.shape.size() - 2];
  rows = rows * static_cast<int64_t>(sources.size());
  packed.packing.group = group;
  for (TensorId source : sources) packed.packing.sources.push_back(use(source));
  id = program.tensors.add(std::move(packed));
  return id;
}

TensorId Fusion::add_activation(const std::string& name, DType dtype, std::vector<Expr> shape,
                                const Loc& loc) {
  Tensor t;
  t.name = name;
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.loc = loc;
  return program.tensors.add(std::move(t));
}

bool Fusion::add_active_experts(int64_t experts, int64_t choices, const Expr& tokens, const Loc& loc) {
  Symbols& symbols = program.symbols;
  // The choices of a token differ, so at least as many experts have tokens as one token has choices.
  const Bounds found = {choices, experts};
  if (const SymbolId known = step_symbols(symbols).active_experts; known.valid())
    return symbols[known].routed && symbols[known].bounds == found;
  const int64_t max_tokens = bounds(tokens, symbol_bounds(symbols)).hi;
  const SymbolId count = symbols.add({kActiveExpertsSymbol, found, loc, {}, {}, true});
  const SymbolId rows = symbols.add({kActiveExpertRowsSymbol, {1, max_tokens}, loc, symbol(count), {}, true});
  symbols.add({kActiveExpertBeginSymbol, {0, choices * max_tokens - 1}, loc, symbol(count), rows, true});
  return true;
}

Expr Fusion::active_experts() const {
  return symbol(step_symbols(program.symbols).active_experts);
}

GridId Fusion::add_grid(std::string name, BodyKind body, std::vector<Coord> coords, std::vector<OpId> ops) {
  const auto is_taken = [&](const std::string& wanted) {
    return std::any_of(program.grids.begin(), program.grids.end(),
                       [&](const TaskGrid& g) { return g.name == wanted; });
  };
  const std::string stem = name;
  for (int number = 2; is_taken(name); ++number) name = fmt::format("{}_{}", stem, number);
  TaskGrid grid;
  grid.name = std::move(name);
  grid.body = body;
  grid.coords = std::move(coords);
  grid.layer = graph.ops[ops.back()].layer;
  grid.loc = graph.ops[ops.back()].loc;
  for (OpId op : ops) taken[op.index] = true;
  grid.ops = std::move(ops);
  made_for.push_back(current);
  return program.grids.add(std::move(grid));
}

void Fusion::read(GridId grid, const std::string& role, TensorId t, bool stream) {
  program.grids[grid].reads.push_back({role, t, {}, stream});
}

void Fusion::write(GridId grid, const char* role, TensorId t) {
  program.grids[grid].writes.push_back({role, t, {}, false});
}

Status Fusion::require_lists(OpId op, std::initializer_list<const char*> names, const Expr& requests) const {
  for (const char* name : names) {
    const SymbolId list = find_symbol(graph.symbols, name);
    if (!list.valid() || graph.symbols[list].length != requests)
      return misfit(op, fmt::format("the graph has no list {} over the requests", name));
  }
  return {};
}

Error Fusion::misfit(OpId op, const std::string& why) const {
  return error_at(graph.ops[op].loc,
                  fmt::format("{} fits no task: {}", op_schema(graph.ops[op].kind).name, why));
}

}  // namespace mkc
