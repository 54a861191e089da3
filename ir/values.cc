#include "ir/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/ceil.h"
#include "ir/domain.h"

namespace mkc {
namespace {

// Lays the values out as evaluate() takes them: one entry per SymbolId, then the elements of the lists.
// `given` is by SymbolId: the one value of a symbol, or the elements of a list. A list of sums that is not
// cut is given nothing.
std::vector<int64_t> lay_out_values(const Symbols& symbols, const std::vector<std::vector<int64_t>>& given) {
  std::vector<int64_t> values(symbols.size());
  for (SymbolId id : symbols.ids()) {
    const Symbol& s = symbols[id];
    if (!s.is_list()) {
      values[id.index] = given[id.index].at(0);
      continue;
    }
    const auto begin = static_cast<int64_t>(values.size());
    values[id.index] = begin;
    if (!s.sums.valid() || s.cut) {
      values.insert(values.end(), given[id.index].begin(), given[id.index].end());
      continue;
    }
    int64_t sum = 0;
    const int64_t length = evaluate(s.length, values), summed = values[s.sums.index];
    for (int64_t i = 0; i < length; ++i) {
      values.push_back(sum);
      sum += values[static_cast<size_t>(summed + i)];
    }
  }
  return values;
}

}  // namespace

std::vector<Bounds> symbol_bounds(const Symbols& symbols) {
  std::vector<Bounds> out;
  for (const Symbol& s : symbols) out.push_back(s.bounds);
  return out;
}

std::vector<int64_t> upper_bounds(const Symbols& symbols) {
  std::vector<int64_t> max;
  for (const Symbol& s : symbols) max.push_back(s.bounds.hi);
  return max;
}

Routing routing_of(const Symbols& symbols) {
  const SymbolId active = find_symbol(symbols, kActiveExpertsSymbol);
  if (!active.valid() || !symbols[active].routed) return {};
  return {symbols[active].bounds.lo, symbols[active].bounds.hi};
}

std::vector<int64_t> spread_rows(const Routing& routing, int64_t tokens, int64_t active_experts) {
  const int64_t rows = routing.choices * tokens;
  std::vector<int64_t> spread(static_cast<size_t>(active_experts), rows / active_experts);
  for (int64_t i = 0; i < rows % active_experts; ++i) ++spread[static_cast<size_t>(i)];
  return spread;
}

int64_t partial_slots(const Symbols& symbols) {
  const StepSymbols step = step_symbols(symbols);
  const int64_t tokens = symbols[step.tokens].bounds.hi,
                kv_tiles = ceil_of(symbols[step.kv_len].bounds.hi, kKvTilePositions);
  return tokens * std::max(std::min(kv_tiles, kPartialsOfRow), ceil_of(kv_tiles, kKvChunkTiles));
}

int64_t partial_positions(const Symbols& symbols, std::span<const StepRequest> requests) {
  const int64_t max_rows = step_symbols(symbols).blocks->max_rows;
  int64_t tokens = 0, longest = 0, kv_chunks = 0;
  for (const StepRequest& r : requests) {
    tokens += r.rows;
    longest = std::max(longest, r.kv_len);
    kv_chunks += ceil_of(r.rows, max_rows) * ceil_of(r.kv_len, kKvChunkPositions);
  }
  const bool fits = ceil_of(longest, kKvTilePositions) * tokens <= partial_slots(symbols);
  return fits && kv_chunks < kBusyKvChunks ? kKvTilePositions : kKvChunkPositions;
}

namespace {

// Sets the values of the cut symbols.
void cut_rows(const Symbols& symbols, const RowBlocks& blocks, std::span<const StepRequest> requests,
              std::vector<std::vector<int64_t>>& given) {
  for (const bool last : {false, true}) {
    int64_t first_row = 0;
    for (size_t b = 0; b < requests.size(); first_row += requests[b].rows, ++b)
      for (int64_t row = 0; row < requests[b].rows; row += blocks.max_rows) {
        const int64_t rows = std::min(blocks.max_rows, requests[b].rows - row), end = row + rows;
        if ((end == requests[b].rows) != last) continue;
        given[blocks.request.index].push_back(static_cast<int64_t>(b));
        given[blocks.rows.index].push_back(rows);
        given[blocks.first_row.index].push_back(first_row + row);
        given[blocks.kv_len.index].push_back(requests[b].kv_len - requests[b].rows + end);
      }
  }
  given[blocks.count.index] = {static_cast<int64_t>(given[blocks.rows.index].size())};
  if (blocks.partial_positions.valid())
    given[blocks.partial_positions.index] = {partial_positions(symbols, requests)};
}

}  // namespace

std::vector<int64_t> step_values(const Symbols& symbols, std::span<const StepRequest> requests,
                                 std::span<const int64_t> active_expert_rows) {
  int64_t tokens = 0;
  for (const StepRequest& r : requests) tokens += r.rows;
  const Routing routing = routing_of(symbols);
  std::vector<int64_t> routed(active_expert_rows.begin(), active_expert_rows.end());
  if (routed.empty() && routing.choices != 0)
    routed = spread_rows(routing, tokens, std::min(routing.experts, routing.choices * tokens));
  std::vector<std::vector<int64_t>> given(symbols.size());
  const StepSymbols step = step_symbols(symbols);
  if (step.blocks) cut_rows(symbols, *step.blocks, requests, given);
  for (SymbolId id : symbols.ids()) {
    const Symbol& s = symbols[id];
    std::vector<int64_t>& of = given[id.index];
    if (s.cut) continue;
    if (s.routed) {
      of = s.is_list() ? routed : std::vector{static_cast<int64_t>(routed.size())};
      continue;
    }
    if (!s.is_list()) {
      of = {s.bounds.lo};
      if (id == step.requests || id == step.logit_rows) of[0] = static_cast<int64_t>(requests.size());
      if (id == step.kv_len) of[0] = requests[0].kv_len;
      if (id == step.tokens) of[0] = tokens;
      continue;
    }
    for (const StepRequest& r : requests)
      of.push_back(id == step.q_len ? r.rows : id == step.kv_len ? r.kv_len : s.bounds.lo);
  }
  return lay_out_values(symbols, given);
}

std::vector<int64_t> lowest_values(const Symbols& symbols) {
  std::vector<std::vector<int64_t>> given(symbols.size());
  std::vector<int64_t> lowest;
  for (const Symbol& s : symbols) lowest.push_back(s.bounds.lo);
  for (SymbolId id : symbols.ids()) {
    const Symbol& s = symbols[id];
    const int64_t count = s.is_list() ? evaluate(s.length, lowest) : 1;
    given[id.index].assign(static_cast<size_t>(count), s.bounds.lo);
  }
  return lay_out_values(symbols, given);
}

std::string values_text(const Symbols& symbols, std::span<const int64_t> values) {
  std::string text;
  for (SymbolId id : symbols.ids()) {
    const Symbol& s = symbols[id];
    if (s.sums.valid() || s.cut) continue;
    text += fmt::format("{}{} = ", text.empty() ? "" : ", ", s.name);
    const auto at = static_cast<size_t>(values[id.index]);
    text += s.is_list()
                ? fmt::format(
                      "[{}]",
                      fmt::join(values.subspan(at, static_cast<size_t>(evaluate(s.length, values))), ", "))
                : std::to_string(values[id.index]);
  }
  return text;
}

std::vector<Bounds> coord_bounds(const TaskGrid& grid, const std::vector<Bounds>& symbols) {
  Domain domain{symbols, {}, {}};
  for (const Coord& c : grid.coords) add_coord(domain, c.extent);
  return domain.coords;
}

bool never_empty(const TaskGrid& grid, const std::vector<Bounds>& symbols) {
  const std::vector<Bounds> coords = coord_bounds(grid, symbols);
  return std::all_of(grid.coords.begin(), grid.coords.end(),
                     [&](const Coord& c) { return bounds(c.extent, symbols, coords).lo >= 1; });
}

TaskSpace::TaskSpace(const TaskGrid& grid, std::span<const int64_t> values) {
  const auto extent = [&](size_t i, std::span<const int64_t> coords) {
    return std::max<int64_t>(0, evaluate(grid.coords[i].extent, values, coords));
  };
  for (size_t i = 0; i < grid.coords.size(); ++i) {
    if (!uses_coord(grid.coords[i].extent)) {
      extents_.push_back(extent(i, {}));
      count_ *= extents_.back();
      continue;
    }
    std::vector<int64_t> coords(i, 0);
    begin_ = {0};
    for (coords[i - 1] = 0; coords[i - 1] < extents_.back(); ++coords[i - 1])
      begin_.push_back(begin_.back() + extent(i, coords));
    if (extents_.back() == 0) return;  // count_ is 0
    count_ = count_ / extents_.back() * begin_.back();
  }
}

void TaskSpace::coords_of(int64_t task, std::vector<int64_t>& coords) const {
  size_t plain = extents_.size();
  coords.resize(plain + (begin_.empty() ? 0 : 1));
  if (!begin_.empty()) {
    const int64_t within = task % begin_.back();
    task /= begin_.back();
    const auto after = std::upper_bound(begin_.begin(), begin_.end(), within);
    coords[plain] = within - *std::prev(after);
    coords[--plain] = std::prev(after) - begin_.begin();
  }
  for (; plain > 0; --plain) {
    coords[plain - 1] = task % extents_[plain - 1];
    task /= extents_[plain - 1];
  }
}

}  // namespace mkc
