#include "codegen/lists.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/device/worker.h"
#include "ir/bodies.h"

namespace mkc {

static_assert(mk::kMaxTokens == kMaxStepTokens && mkrt::kMaxRequests == kMaxStepRequests);

namespace {

template <class T>
uint32_t place_of(const std::vector<std::pair<T, uint32_t>>& places, const T& list) {
  const auto at =
      std::find_if(places.begin(), places.end(), [&](const auto& place) { return place.first == list; });
  MKC_ASSERT(at != places.end(), "a list that the worker does not keep");
  return at->second;
}

}  // namespace

uint32_t StepLists::at(SymbolId list) const {
  return place_of(symbol_places, list);
}
uint32_t StepLists::at(const RaggedRows& rows) const {
  return place_of(ragged_places, rows);
}

std::optional<RaggedRows> ragged_rows(const TaskGrid& grid) {
  if (grid.coords.empty() || !uses_coord(grid.coords.back().extent)) return std::nullopt;
  const size_t last = grid.coords.size() - 1;
  std::vector<Expr> row(last);
  row[last - 1] = coord(0);
  RaggedRows rows{grid.coords[last - 1].extent, substitute(grid.coords[last].extent, row)};
  for (size_t i = 0; i < rows.extent.nodes.size(); ++i)
    MKC_ASSERT(rows.extent.nodes[i].kind != ExprKind::kElement ||
                   (i > 0 && rows.extent.nodes[i - 1].kind == ExprKind::kCoord),
               "a ragged extent that depends on another row's elements");
  return rows;
}

namespace {

StepLists lay_out(const TaskProgram& program) {
  const Symbols& symbols = program.symbols;
  StepLists lists;
  const auto take = [&](const Expr& entries) {
    const uint32_t begin = lists.words;
    lists.words += static_cast<uint32_t>(bounds(entries, symbol_bounds(symbols)).hi);
    return begin;
  };
  for (SymbolId id : symbols.ids()) {
    if (!symbols[id].is_list() || symbols[id].routed) continue;
    if (!symbols[id].cut) lists.given.push_back(id);
    lists.symbol_places.emplace_back(id, take(symbols[id].length));
  }
  const auto keep = [&](const RaggedRows& rows) {
    lists.ragged_places.emplace_back(rows, take(rows.rows + 1));
  };
  const StepSymbols step = step_symbols(symbols);
  lists.blocks = step.blocks;
  if (lists.blocks) {
    const Expr blocks = ceil_div(element(step.q_len, coord(0)), lists.blocks->max_rows);
    lists.before_last = {symbols[step.q_len].length, blocks - 1};
    keep(*lists.before_last);
    if (lists.blocks->partial_positions.valid()) lists.partial_positions = take(1);
  }
  for (const TaskGrid& grid : program.grids) {
    const std::optional<RaggedRows> rows = ragged_rows(grid);
    if (!rows || std::find(lists.ragged.begin(), lists.ragged.end(), *rows) != lists.ragged.end()) continue;
    lists.ragged.push_back(*rows);
    keep(*rows);
  }
  return lists;
}

}  // namespace

StepLists find_lists(const TaskProgram& program) {
  const StepLists lists = lay_out(program);
  MKC_ASSERT(lists.words * sizeof(uint32_t) <= mk::kListBytes, "more lists than a worker holds");
  return lists;
}

Status check_lists(const TaskProgram& program) {
  const size_t bytes = lay_out(program).words * sizeof(uint32_t);
  if (bytes <= mk::kListBytes) return {};
  const Symbols& symbols = program.symbols;
  const int64_t tokens = symbols[step_symbols(symbols).tokens].bounds.hi;
  return Error{fmt::format(
      "--max-tokens: error: the lists of a step of {} tokens take {} bytes of a worker's shared memory, "
      "which has {} for them: fewer tokens, or fewer different windows",
      tokens, bytes, mk::kListBytes)};
}

}  // namespace mkc
