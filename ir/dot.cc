#include "ir/dot.h"

#include <fmt/format.h>

#include <functional>

#include "ir/printer.h"

namespace mkc {
namespace {

// Returns the text in double quotes, with line breaks as \n.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

struct Dot {
  std::string out;

  explicit Dot(const std::string& name)
      : out(fmt::format("digraph {} {{\n  node [shape=box, fontname=\"monospace\"];\n", in_quotes(name))) {}
  void node(const std::string& id, const std::string& label, std::string_view style = {}) {
    out += fmt::format("    {} [label={}{}];\n", id, in_quotes(label), style);
  }
  void edge(const std::string& from, const std::string& to, const std::string& label) {
    out += fmt::format("  {} -> {} [label={}];\n", from, to, in_quotes(label));
  }
  // Adds nodes 0 to count - 1 in order. Consecutive nodes of one layer share a box.
  void nodes(uint32_t count, const std::function<int32_t(uint32_t)>& layer_of,
             const std::function<void(uint32_t)>& add) {
    int32_t layer = -1;
    for (uint32_t i = 0; i <= count; ++i) {
      const int32_t next = i < count ? layer_of(i) : -1;
      if (next != layer && layer >= 0) out += "  }\n";
      if (next != layer && next >= 0)
        out += fmt::format("  subgraph cluster_{} {{\n    label=\"layer {}\";\n", i, next);
      layer = next;
      if (i < count) add(i);
    }
  }
  std::string finish() { return out + "}\n"; }
};

// Writers holds the last object that wrote each tensor.
struct Writers {
  std::vector<uint32_t> last;
  std::string stem;

  Writers(uint32_t tensors, std::string node_stem) : last(tensors, UINT32_MAX), stem(std::move(node_stem)) {}
  void read(Dot& dot, TensorId t, uint32_t reader, const std::string& name) const {
    if (last[t.index] != UINT32_MAX)
      dot.edge(stem + std::to_string(last[t.index]), stem + std::to_string(reader), name);
  }
  void write(TensorId t, uint32_t writer) { last[t.index] = writer; }
};

void add_events(Dot& dot, const TaskProgram& program) {
  Printer text(program.symbols, program.tensors);
  for (EventId e : program.events.ids()) {
    const Event& event = program.events[e];
    dot.node(
        fmt::format("event{}", e.index),
        fmt::format("@{}[{}]\nexpect {}", event.name, text.expr_list(event.dims), text.expr(event.expect)),
        ", shape=ellipse");
  }
  for (GridId g : program.grids.ids()) {
    const TaskGrid& grid = program.grids[g];
    text.set_coords(grid);
    for (const Wait& wait : grid.waits)
      dot.edge(fmt::format("event{}", wait.event.index), fmt::format("grid{}", g.index),
               fmt::format("[{}]", text.expr_list(wait.cell)));
    for (const Notify& notify : grid.notifies)
      dot.edge(fmt::format("grid{}", g.index), fmt::format("event{}", notify.event.index),
               text.region(notify.cells));
  }
}

void add_dependences(Dot& dot, const TaskProgram& program) {
  Writers writers(program.tensors.size(), "grid");
  for (GridId g : program.grids.ids()) {
    for (const Access& read : program.grids[g].reads)
      writers.read(dot, read.tensor, g.index, "%" + program.tensors[read.tensor].name);
    for (const Access& write : program.grids[g].writes) writers.write(write.tensor, g.index);
  }
}

}  // namespace

std::string to_dot(const OpGraph& graph) {
  Dot dot(graph.name);
  dot.nodes(
      graph.ops.size(), [&](uint32_t i) { return graph.ops.items[i].layer; },
      [&](uint32_t i) { dot.node(fmt::format("op{}", i), op_schema(graph.ops.items[i].kind).name); });
  Writers writers(graph.tensors.size(), "op");
  for (OpId op : graph.ops.ids()) {
    for (TensorId t : graph.ops[op].inputs) writers.read(dot, t, op.index, "%" + graph.tensors[t].name);
    for (TensorId t : graph.ops[op].outputs) writers.write(t, op.index);
  }
  return dot.finish();
}

std::string to_dot(const TaskProgram& program) {
  Dot dot(program.name);
  Printer text(program.symbols, program.tensors);
  const auto add_grid = [&](uint32_t i) {
    const TaskGrid& grid = program.grids.items[i];
    std::string coords;
    for (const Coord& c : grid.coords)
      coords += fmt::format("{}{}: {}", coords.empty() ? "" : ", ", c.name, text.expr(c.extent));
    dot.node(fmt::format("grid{}", i), fmt::format("%{}[{}]\n{}", grid.name, coords, body_name(grid.body)));
  };
  dot.nodes(program.grids.size(), [&](uint32_t i) { return program.grids.items[i].layer; }, add_grid);
  if (program.events.size() != 0)
    add_events(dot, program);
  else
    add_dependences(dot, program);
  return dot.finish();
}

}  // namespace mkc
