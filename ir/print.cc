#include "ir/print.h"

#include <fmt/format.h>

#include "ir/printer.h"

namespace mkc {
namespace {

constexpr size_t kStreamColumns = 110;

void add_accesses(Printer& p, const char* verb, const std::vector<Access>& accesses) {
  for (const Access& a : accesses)
    p.out += fmt::format("  {} {} {}{}{}\n", verb, spell_name(a.role), p.tensor(a.tensor), p.region(a.region),
                         a.stream ? " stream" : "");
}

std::string spell_ops(const std::vector<OpId>& ops) {
  std::string text;
  for (OpId op : ops) text += (text.empty() ? " ops [" : ", ") + std::to_string(op.index);
  return text.empty() ? text : text + "]";
}

void add_grid(Printer& p, const TaskGrid& grid, const std::vector<std::string>& events,
              const Placement* placement) {
  std::string coords;
  for (const Coord& c : grid.coords) {
    coords += fmt::format("{}{}: {}", coords.empty() ? "" : ", ", spell_name(c.name), p.expr(c.extent));
    p.add_coord(c);
  }
  p.out +=
      fmt::format("grid %{}[{}]: {}{}{}{}{}\n", spell_name(grid.name), coords, keyword(grid.body),
                  spell_attrs(grid.attrs), spell_layer(grid.layer), spell_ops(grid.ops), p.loc(grid.loc));
  add_accesses(p, "read", grid.reads);
  add_accesses(p, "write", grid.writes);
  for (const Wait& wait : grid.waits)
    p.out += fmt::format("  wait @{}[{}]{}\n", reference(events, wait.event.index), p.expr_list(wait.cell),
                         wait.lookup ? " lookup" : "");
  for (const Notify& notify : grid.notifies)
    p.out += fmt::format("  notify @{}{}\n", reference(events, notify.event.index), p.region(notify.cells));
  if (placement)
    p.out +=
        fmt::format("  place {} {}{}{}\n", keyword(placement->kind),
                    claims_by_ticket(placement->kind) ? fmt::format("tickets {} ", placement->tickets) : "",
                    placement->rotation != 0 ? fmt::format("rotation {} ", placement->rotation) : "",
                    spell_string(placement->reason));
  p.coords.clear();
}

void add_event(Printer& p, const Event& event, const uint32_t* base) {
  p.out += fmt::format("event @{}[{}] expect {}", spell_name(event.name), p.expr_list(event.dims),
                       p.expr(event.expect));
  if (base) p.out += fmt::format(" base {}", *base);
  p.out += p.loc(event.loc) + "\n";
}

template <class T>
const T* at(const std::vector<T>* items, uint32_t index) {
  return items && index < items->size() ? &(*items)[index] : nullptr;
}

// Prints level 2. `schedule`, if given, adds the facts of level 3 to each object.
void add_program(Printer& p, const TaskProgram& program, const Schedule* schedule) {
  const std::vector<std::string> events = reference_names(program.events);
  p.add_symbols(program.symbols);
  p.add_tensors(program.tensors, schedule ? &schedule->slots : nullptr);
  p.add_ropes(program.ropes);
  for (EventId e : program.events.ids())
    add_event(p, program.events[e], at(schedule ? &schedule->event_base : nullptr, e.index));
  for (GridId g : program.grids.ids())
    add_grid(p, program.grids[g], events, at(schedule ? &schedule->placements : nullptr, g.index));
}

std::string spell_segment(const Segment& segment, const std::vector<std::string>& grids) {
  std::string text = "%" + reference(grids, segment.grid.index);
  if (segment.first != 0 || segment.count != 0) text += fmt::format("[{}:+{}]", segment.first, segment.count);
  return text;
}

void add_stream(Printer& p, uint32_t worker, const std::vector<Segment>& stream,
                const std::vector<std::string>& grids) {
  p.out += fmt::format("worker {}\n", worker);
  std::string line;
  for (const Segment& segment : stream) {
    const std::string text = spell_segment(segment, grids);
    if (!line.empty() && line.size() + 2 + text.size() > kStreamColumns) {
      p.out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "  run " : ", ") + text;
  }
  if (!line.empty()) p.out += line + "\n";
}

}  // namespace

std::string print(const OpGraph& graph) {
  Printer p(graph.symbols, graph.tensors);
  p.add_symbols(graph.symbols);
  p.add_tensors(graph.tensors, nullptr);
  p.add_ropes(graph.ropes);
  for (const Op& op : graph.ops) {
    p.out += fmt::format("op {}({})", op_schema(op.kind).name, p.tensor_list(op.inputs));
    if (!op.outputs.empty()) p.out += " -> " + p.tensor_list(op.outputs);
    p.out += spell_attrs(op.attrs) + spell_layer(op.layer) + p.loc(op.loc) + "\n";
  }
  return p.finish("ops", graph.name);
}

std::string print(const TaskProgram& program) {
  Printer p(program.symbols, program.tensors);
  add_program(p, program, nullptr);
  return p.finish("tasks", program.name);
}

std::string print(const Schedule& s) {
  Printer p(s.program.symbols, s.program.tensors);
  add_program(p, s.program, &s);
  const std::vector<std::string> grids = reference_names(s.program.grids);
  for (uint32_t w = 0; w < s.streams.size(); ++w) add_stream(p, w, s.streams[w], grids);
  return p.finish("schedule", s.program.name,
                  fmt::format("machine {} workers {}\nring stages {} bytes {}\n"
                              "arenas weights {} workspace {} counters {}\n",
                              spell_string(s.machine), s.workers, s.ring.stages, s.ring.stage_bytes,
                              s.weight_bytes, s.workspace_bytes, s.event_cells));
}

}  // namespace mkc
