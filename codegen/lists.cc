#include "codegen/lists.h"

#include <algorithm>

#include "codegen/device/worker.h"

namespace mkc {
namespace {

template <class T>
uint32_t position(const std::vector<T>& items, const T& item) {
  const auto at = std::find(items.begin(), items.end(), item);
  MKC_ASSERT(at != items.end(), "a list that the worker does not keep");
  return static_cast<uint32_t>(at - items.begin());
}

}  // namespace

uint32_t StepLists::number(SymbolId list) const {
  return position(given, list);
}
uint32_t StepLists::number(const RaggedRows& rows) const {
  return static_cast<uint32_t>(given.size()) + position(ragged, rows);
}

std::optional<RaggedRows> ragged_rows(const TaskGrid& grid) {
  if (grid.coords.empty() || !uses_coord(grid.coords.back().extent)) return std::nullopt;
  const size_t last = grid.coords.size() - 1;
  std::vector<Expr> row(last);
  row[last - 1] = coord(0);
  const RaggedRows rows{grid.coords[last - 1].extent, substitute(grid.coords[last].extent, row)};
  for (size_t i = 0; i < rows.extent.nodes.size(); ++i)
    MKC_ASSERT(rows.extent.nodes[i].kind != ExprKind::kElement ||
                   (i > 0 && rows.extent.nodes[i - 1].kind == ExprKind::kCoord),
               "a ragged extent that depends on another row's elements");
  return rows;
}

StepLists find_lists(const Schedule& schedule) {
  StepLists lists;
  for (SymbolId id : schedule.program.symbols.ids())
    if (schedule.program.symbols[id].is_list() && !schedule.program.symbols[id].routed)
      lists.given.push_back(id);
  for (const TaskGrid& grid : schedule.program.grids) {
    const std::optional<RaggedRows> rows = ragged_rows(grid);
    if (rows && std::find(lists.ragged.begin(), lists.ragged.end(), *rows) == lists.ragged.end())
      lists.ragged.push_back(*rows);
  }
  MKC_ASSERT(lists.given.size() + lists.ragged.size() <= mk::kMaxLists, "more lists than a worker holds");
  return lists;
}

}  // namespace mkc
