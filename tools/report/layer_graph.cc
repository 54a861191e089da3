#include "tools/report/layer_graph.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "scheduler/machine/cost.h"
#include "tools/grid_table.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

// A section has consecutive or equal layers. Its grids are those of its first layer.
struct Section {
  int32_t layer = -1, last = -1;
  uint32_t layers = 0;
  std::vector<GridId> grids;
  std::vector<uint32_t> kinds;  // of its grids
};

// Returns the grids outside of layers, then a section for each different layer.
std::vector<Section> sections_of(const TaskProgram& program, const Kinds& kinds) {
  std::map<int32_t, Section> layers;
  for (GridId id : program.grids.ids()) {
    Section& section = layers[program.grids[id].layer];
    section.grids.push_back(id);
    section.kinds.push_back(kinds.of_grid[id.index]);
  }
  std::vector<Section> sections;
  for (auto& [layer, section] : layers) {
    auto at = std::ranges::find(sections, section.kinds, &Section::kinds);
    if (at == sections.end()) at = sections.insert(at, std::move(section)), at->layer = layer;
    at->last = layer;
    ++at->layers;
  }
  return sections;
}

class GraphWriter {
 public:
  GraphWriter(const SimulatedStep& step, const OpGraph& ops)
      : step_(step), program_(step.compilation.schedule().program), ops_(ops), rows_(grid_rows(step)) {
    for (const Symbol& symbol : ops.symbols) symbols_.push_back(symbol.name);
    find_writers();
  }

  ordered_json section(const Section& s) const {
    ordered_json nodes = ordered_json::array(), edges = ordered_json::array();
    for (GridId id : s.grids) nodes.push_back(node(id));
    for (uint32_t to = 0; to < s.grids.size(); ++to) add_edges(s.grids, to, edges);
    return {{"layer", s.layer}, {"last", s.last}, {"layers", s.layers}, {"nodes", nodes}, {"edges", edges}};
  }

 private:
  // Finds the grid that has written each tensor last before a grid reads it, by grid and read.
  void find_writers() {
    std::vector<GridId> last(program_.tensors.size());
    for (const TaskGrid& grid : program_.grids) {
      std::vector<GridId>& writers = writers_.emplace_back();
      for (const Access& read : grid.reads) writers.push_back(last[read.tensor.index]);
      const GridId id{static_cast<uint32_t>(writers_.size() - 1)};
      for (const Access& write : grid.writes) last[write.tensor.index] = id;
    }
  }

  std::string shape_of(const Tensor& t) const {
    std::string text;
    for (const Expr& dim : t.shape) text += (text.empty() ? "" : ", ") + to_string(dim, symbols_);
    return "[" + text + "]";
  }

  // Returns the bytes at the step's symbols. Matrices of weights count with what their tiles hold beside.
  uint64_t bytes_of(const Tensor& t) const {
    if (is_matrix(t) && find_weight_type(t.dtype)) return packed_stack_bytes(t);
    int64_t elements = 1;
    for (const Expr& dim : t.shape) elements *= evaluate(dim, step_.symbols);
    return static_cast<uint64_t>(elements * dtype_bytes(t.dtype));
  }

  ordered_json operands(const std::vector<TensorId>& ids, const std::vector<RoleSchema>& roles) const {
    ordered_json out = ordered_json::array();
    for (size_t i = 0; i < ids.size(); ++i) {
      const Tensor& t = ops_.tensors[ids[i]];
      out.push_back({{"role", role_name(roles[std::min(i, roles.size() - 1)].name)},
                     {"tensor", t.name},
                     {"type", dtype_name(t.dtype)},
                     {"shape", shape_of(t)},
                     {"bytes", bytes_of(t)}});
    }
    return out;
  }

  ordered_json op(const Op& op) const {
    const OpSchema& schema = op_schema(op.kind);
    ordered_json attrs = ordered_json::object();
    for (const Attr& a : op.attrs)
      if (a.is_float)
        attrs[a.name] = a.f;
      else
        attrs[a.name] = a.i;
    return {{"op", schema.name},
            {"inputs", operands(op.inputs, schema.inputs)},
            {"outputs", operands(op.outputs, schema.outputs)},
            {"attrs", attrs}};
  }

  ordered_json node(GridId id) const {
    const TaskGrid& grid = program_.grids[id];
    ordered_json ops = ordered_json::array();
    for (OpId o : grid.ops) ops.push_back(op(ops_.ops[o]));
    return {{"grid", grid.name},
            {"id", id.index},
            {"body", body_name(grid.body)},
            {"tasks", rows_[id.index].tasks},
            {"bytes", rows_[id.index].bytes},
            {"ops", ops}};
  }

  void add_edges(const std::vector<GridId>& nodes, uint32_t to, ordered_json& edges) const {
    const TaskGrid& grid = program_.grids[nodes[to]];
    std::map<GridId, ordered_json> tensors;  // by writer
    for (size_t r = 0; r < grid.reads.size(); ++r) {
      const GridId writer = writers_[nodes[to].index][r];
      if (!writer.valid() || writer == nodes[to]) continue;
      const Tensor& t = program_.tensors[grid.reads[r].tensor];
      ordered_json& list = tensors[writer];
      const ordered_json tensor{{"tensor", t.name}, {"type", dtype_name(t.dtype)}, {"bytes", bytes_of(t)}};
      if (std::ranges::find(list, tensor) == list.end()) list.push_back(tensor);
    }
    for (const auto& [writer, list] : tensors) {
      const auto at = std::ranges::find(nodes, writer);
      ordered_json from = program_.grids[writer].name;
      if (at != nodes.end()) from = at - nodes.begin();
      edges.push_back({{"from", from}, {"to", to}, {"tensors", list}});
    }
  }

  const SimulatedStep& step_;
  const TaskProgram& program_;
  const OpGraph& ops_;
  const std::vector<GridRow> rows_;
  std::vector<std::string> symbols_;
  std::vector<std::vector<GridId>> writers_;
};

}  // namespace

ordered_json layer_graph_json(const SimulatedStep& step, const OpGraph& ops, const Kinds& kinds) {
  const GraphWriter writer(step, ops);
  ordered_json sections = ordered_json::array();
  for (const Section& s : sections_of(step.compilation.schedule().program, kinds))
    sections.push_back(writer.section(s));
  return sections;
}

}  // namespace mkc
