#include <fmt/format.h>

#include "ir/verifier.h"

namespace mkc {
namespace {

using SymbolSet = std::set<SymbolId>;

// Adds the routed symbols that the expression mentions.
void mention(const Verifier& v, const Expr& e, SymbolSet& symbols) {
  for (const ExprNode& node : e.nodes) {
    if (node.kind != ExprKind::kSymbol && node.kind != ExprKind::kElement) continue;
    const SymbolId id{static_cast<uint32_t>(node.value)};
    if (v.symbols[id].routed) symbols.insert(id);
  }
}

void mention(const Verifier& v, const Region& region, SymbolSet& symbols) {
  for (const Range& range : region) mention(v, range.offset, symbols), mention(v, range.size, symbols);
}

SymbolSet mentioned_by(const Verifier& v, const Event& event) {
  SymbolSet symbols;
  mention(v, event.expect, symbols);
  for (const Expr& dim : event.dims) mention(v, dim, symbols);
  return symbols;
}

// Returns the routed symbols in the grid's extents, in its cells, and in the events of these cells.
SymbolSet mentioned_by_tasks(const Verifier& v, const TaskProgram& program, const TaskGrid& grid) {
  SymbolSet symbols;
  for (const Coord& c : grid.coords) mention(v, c.extent, symbols);
  for (const Wait& wait : grid.waits) {
    for (const Expr& e : wait.cell) mention(v, e, symbols);
    symbols.merge(mentioned_by(v, program.events[wait.event]));
  }
  for (const Notify& notify : grid.notifies) {
    mention(v, notify.cells, symbols);
    symbols.merge(mentioned_by(v, program.events[notify.event]));
  }
  return symbols;
}

// Returns the table that the grid reads a routed symbol from, or null if there is none.
const Access* table_of(const Verifier& v, const TaskGrid& grid, SymbolId symbol) {
  for (const Access& read : grid.reads)
    if (read.role == v.symbols[symbol].name) return &read;
  return nullptr;
}

void check_grid(Verifier& v, const TaskProgram& program, GridId id) {
  const TaskGrid& grid = program.grids[id];
  const Site site{{Part::kGrid, id.index}, "grid %" + spell_name(grid.name), &grid.loc};
  SymbolSet symbols = mentioned_by_tasks(v, program, grid);
  for (const SymbolId s : symbols)
    if (v.symbols[s].is_list())
      v.report(
          31, site,
          fmt::format("list {} is routed, and stands outside of regions", spell_name(v.symbols[s].name)));
  for (const Access& a : grid.reads) mention(v, a.region, symbols);
  for (const Access& a : grid.writes) mention(v, a.region, symbols);
  for (const SymbolId s : symbols) {
    const std::string name = spell_name(v.symbols[s].name);
    const Access* table = table_of(v, grid, s);
    if (!table) {
      v.report(31, site, fmt::format("{} is routed, but the grid reads no operand {}", name, name));
      continue;
    }
    const Expr length = v.symbols[s].is_list() ? v.symbols[s].length : Expr(1);
    const Expr& room = v.tensors[table->tensor].shape[0];
    if (const int64_t excess = upper_bound(length - room, v.at_symbols); excess > 0)
      v.report(31, site,
               fmt::format("{} may have {} elements more than its table {}", name, excess,
                           v.text.tensor(table->tensor)));
  }
  for (uint32_t i = 0; i < grid.waits.size(); ++i)
    if (grid.waits[i].lookup && !mentioned_by(v, program.events[grid.waits[i].event]).empty())
      v.report(31, part_site(program, id, Part::kWait, i), "the event of a lookup depends on what is routed");
}

// Checks that one route grid writes all that the grid looks up, and the rows of a token's choices.
void check_route(Verifier& v, const TaskProgram& program, GridId id) {
  const TaskGrid& grid = program.grids[id];
  GridId route;
  for (uint32_t i = 0; i < grid.reads.size(); ++i) {
    const Access& read = grid.reads[i];
    if (!looks_up(grid.body, read.role) && (grid.body != BodyKind::kExpertSum || read.role != "row"))
      continue;
    for (GridId writer : program.grids.ids())
      for (const Access& write : program.grids[writer].writes) {
        if (write.tensor != read.tensor) continue;
        if (!route.valid()) route = writer;
        const TaskGrid& found = program.grids[writer];
        if (found.body != BodyKind::kRoute || write.role != read.role || writer != route)
          v.report(31, part_site(program, id, Part::kRead, i),
                   fmt::format("%{} writes {} as {}, expected {} of {}", spell_name(found.name),
                               v.text.tensor(read.tensor), write.role, read.role,
                               program.grids[route].body == BodyKind::kRoute
                                   ? "%" + spell_name(program.grids[route].name)
                                   : "a route grid"));
      }
  }
}

// Checks that all grids of an event read a routed symbol of the event from the same table.
void check_routed_event(Verifier& v, const TaskProgram& program, EventId event, SymbolId symbol) {
  const Access* first = nullptr;
  const auto check = [&](GridId g, EventId other, Part part, uint32_t i) {
    const Access* table = other == event ? table_of(v, program.grids[g], symbol) : nullptr;
    if (!table) return;  // another event, or a missing table that is reported elsewhere
    if (!first) first = table;
    if (table->tensor != first->tensor)
      v.report(31, part_site(program, g, part, i),
               fmt::format("it has {} from {}, another grid of the event from {}",
                           spell_name(v.symbols[symbol].name), v.text.tensor(table->tensor),
                           v.text.tensor(first->tensor)));
  };
  for (GridId g : program.grids.ids()) {
    const TaskGrid& grid = program.grids[g];
    for (uint32_t i = 0; i < grid.waits.size(); ++i) check(g, grid.waits[i].event, Part::kWait, i);
    for (uint32_t i = 0; i < grid.notifies.size(); ++i) check(g, grid.notifies[i].event, Part::kNotify, i);
  }
}

}  // namespace

void Verifier::check_routed_symbols() {
  for (SymbolId id : symbols.ids()) {
    SymbolSet routed;
    mention(*this, symbols[id].length, routed);
    if (symbols[id].is_list() && symbols[id].routed == routed.empty())
      report(31, symbol_site(id), "a list is routed if its length is, and only then");
  }
  for (TensorId id : tensors.ids()) {
    SymbolSet routed;
    for (const Expr& dim : tensors[id].shape) mention(*this, dim, routed);
    for (const SymbolId s : routed)
      report(31, tensor_site(id),
             fmt::format("its shape depends on {}, which is routed", spell_name(symbols[s].name)));
  }
}

void check_routed(Verifier& v, const TaskProgram& program) {
  for (GridId g : program.grids.ids()) {
    check_grid(v, program, g);
    check_route(v, program, g);
  }
  for (EventId e : program.events.ids())
    for (const SymbolId s : mentioned_by(v, program.events[e])) check_routed_event(v, program, e, s);
}

}  // namespace mkc
