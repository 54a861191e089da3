#include "scheduler/proof/context.h"

#include <algorithm>

#include "ir/values.h"

namespace mkc::proof {

Context::Context(const Schedule& schedule, const Places* text_places)
    : s(schedule), p(schedule.program), places(text_places), at_symbols{symbol_bounds(p.symbols), {}, {}} {
  for (const Symbol& symbol : p.symbols) at_symbols.lengths.push_back(symbol.length);
  for (const TaskGrid& grid : p.grids) {
    tasks.push_back(at_symbols);
    for (const Coord& coord : grid.coords) add_coord(tasks.back(), coord.extent);
  }
  for (const Event& event : p.events) {
    cells.push_back(at_symbols);
    for (const Expr& dim : event.dims) add_coord(cells.back(), dim);
  }
}

bool Context::never_empty(GridId g) const {
  return std::all_of(p.grids[g].coords.begin(), p.grids[g].coords.end(),
                     [&](const Coord& c) { return lower_bound(c.extent, tasks[g.index]) >= 1; });
}

namespace {

std::vector<std::string> symbol_names(const TaskProgram& p) {
  std::vector<std::string> names;
  for (const Symbol& s : p.symbols) names.push_back(s.name);
  return names;
}

}  // namespace

std::string Context::text(const Expr& e, const TaskGrid& grid) const {
  std::vector<std::string> coords;
  for (const Coord& c : grid.coords) coords.push_back(c.name);
  return to_string(e, symbol_names(p), coords);
}

std::string Context::cell_text(const Expr& e) const {
  return to_string(e, symbol_names(p), std::vector<std::string>{"$0", "$1", "$2", "$3"});
}

Error Context::unproved(Subject subject, const std::string& what) {
  is_unproved = true;
  return wrong(subject, "unproved: " + what);
}

bool find_spans(const Symbols& symbols, SymbolId starts, Spans& spans) {
  const Symbol& s = symbols[starts];
  if (!s.sums.valid()) return false;
  const Symbol& lengths = symbols[s.sums];
  const StepSymbols step = step_symbols(symbols);
  if (!step.tokens.valid() || symbols[step.tokens].is_list()) return false;
  spans = {starts, s.sums, symbol(step.tokens)};
  if (s.sums == step.q_len && !lengths.cut && !lengths.routed) return true;
  if (lengths.name == kBlockRowsSymbol && lengths.cut) return true;
  const Routing routing = routing_of(symbols);
  if (s.sums != step.active_expert_rows || !lengths.routed || routing.choices == 0) return false;
  spans.total = routing.choices * symbol(step.tokens);
  return true;
}

bool may_be(const Symbols& symbols, const StepSymbols& step, const std::vector<int64_t>& values,
            const std::vector<bool>& known) {
  const auto value = [&](SymbolId id) -> std::optional<int64_t> {
    if (!id.valid() || !known[id.index]) return std::nullopt;
    return values[id.index];
  };
  const auto at_most = [](std::optional<int64_t> a, std::optional<int64_t> b) {
    return !a || !b || *a <= *b;
  };
  const std::optional<int64_t> tokens = value(step.tokens), requests = value(step.requests),
                               blocks = value(step.blocks ? step.blocks->count : SymbolId{}),
                               rows = value(step.logit_rows), active_experts = value(step.active_experts);
  if (!at_most(requests, tokens) || !at_most(requests, blocks) || !at_most(blocks, tokens)) return false;
  if (!at_most(rows, tokens) || !at_most(requests, rows)) return false;
  if (rows && tokens && requests && *rows != *tokens && *rows != *requests) return false;
  const int64_t choices = routing_of(symbols).choices;
  return !active_experts || !tokens || *active_experts <= choices * *tokens;
}

}  // namespace mkc::proof
