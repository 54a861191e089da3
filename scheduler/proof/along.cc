#include "scheduler/proof/along.h"

#include <algorithm>

namespace mkc::proof {
namespace {

constexpr int64_t kMaxLength = 1 << 20;

// Tells whether the expression mentions no symbol, and no coordinate except `coord`.
bool depends_only_on(const Expr& e, uint32_t coord) {
  return std::all_of(e.nodes.begin(), e.nodes.end(), [&](const ExprNode& node) {
    if (node.kind == ExprKind::kSymbol || node.kind == ExprKind::kElement) return false;
    return node.kind != ExprKind::kCoord || static_cast<uint32_t>(node.value) == coord;
  });
}

uint32_t first_coord(const Range& range) {
  for (const Expr* e : {&range.offset, &range.size})
    for (const ExprNode& node : e->nodes)
      if (node.kind == ExprKind::kCoord) return static_cast<uint32_t>(node.value);
  return Along::kNone;
}

std::optional<Along> as_table(const TaskGrid& grid, const Range& range, const Expr& dim) {
  const uint32_t coord = first_coord(range);
  if (!dim.is_const() || !depends_only_on(range.offset, coord) || !depends_only_on(range.size, coord))
    return std::nullopt;
  int64_t values = 1;
  if (coord != Along::kNone) {
    const std::optional<int64_t> extent = constant_extent(grid, coord);
    if (!extent) return std::nullopt;
    values = *extent;
  }
  Along out{.kind = Along::Kind::kTable, .coord = coord};
  std::vector<int64_t> at(grid.coords.size(), 0);
  for (int64_t value = 0; value < values; ++value) {
    if (coord != Along::kNone) at[coord] = value;
    const int64_t begin = evaluate(range.offset, {}, at), end = begin + evaluate(range.size, {}, at);
    out.intervals.emplace_back(std::max<int64_t>(0, begin), std::min(dim.constant(), end));
  }
  return out;
}

// Returns the operand whose role is the name of a routed symbol.
TensorId table_of(const TaskGrid& grid, const Symbol& symbol) {
  const Access* table = symbol.routed ? find_operand(grid, symbol.name) : nullptr;
  return table ? table->tensor : TensorId{};
}

// Matches ranges with offset starts[c] and size lengths[c]. The size may be cut off at the end of the dim.
std::optional<Along> as_spans(Context& c, const TaskGrid& grid, const Range& range, const Expr& dim) {
  const auto& nodes = range.offset.nodes;
  if (nodes.size() != 2 || nodes[0].kind != ExprKind::kCoord || nodes[1].kind != ExprKind::kElement)
    return std::nullopt;
  Along out{.kind = Along::Kind::kSpans, .coord = static_cast<uint32_t>(nodes[0].value)};
  const Symbols& symbols = c.p.symbols;
  if (!find_spans(symbols, SymbolId{static_cast<uint32_t>(nodes[1].value)}, out.spans)) return std::nullopt;
  const Expr length = element(out.spans.lengths, coord(out.coord));
  const Form size = c.forms.of(range.size);
  const bool whole = Forms::equal(size, c.forms.of(length)) ||
                     Forms::equal(size, c.forms.of(min(length, dim - range.offset)));
  const Coord& by = grid.coords[out.coord];
  if (!whole || !c.forms.equal(by.extent, symbols[out.spans.starts].length) ||
      !c.forms.equal(dim, out.spans.total))
    return std::nullopt;
  out.starts_table = table_of(grid, symbols[out.spans.starts]);
  out.lengths_table = table_of(grid, symbols[out.spans.lengths]);
  for (const ExprNode& node : symbols[out.spans.starts].length.nodes)
    if (node.kind == ExprKind::kSymbol)
      out.count_table = table_of(grid, symbols[SymbolId{static_cast<uint32_t>(node.value)}]);
  return out;
}

std::optional<Along> as_element(Context& c, const TaskGrid& grid, const Range& range, const Expr& dim) {
  const auto& nodes = range.offset.nodes;
  if (nodes.size() != 1 || nodes[0].kind != ExprKind::kCoord) return std::nullopt;
  const auto by = static_cast<uint32_t>(nodes[0].value);
  const Form size = c.forms.of(range.size);
  if (!size.is_const(1) && !Forms::equal(size, c.forms.of(min(1, dim - coord(by))))) return std::nullopt;
  const bool ragged = uses_coord(grid.coords[by].extent);
  return Along{.kind = ragged ? Along::Kind::kRagged : Along::Kind::kEach, .coord = by};
}

}  // namespace

std::optional<int64_t> constant_extent(const TaskGrid& grid, uint32_t coord) {
  const Expr& extent = grid.coords[coord].extent;
  const auto is_leaf_constant = [](const ExprNode& node) {
    return node.kind != ExprKind::kSymbol && node.kind != ExprKind::kElement && node.kind != ExprKind::kCoord;
  };
  if (!std::all_of(extent.nodes.begin(), extent.nodes.end(), is_leaf_constant)) return std::nullopt;
  const int64_t value = evaluate(extent, {});
  return value <= kMaxLength ? std::optional(std::max<int64_t>(0, value)) : std::nullopt;
}

Along along(Context& c, GridId g, const Range& range, const Expr& dim) {
  const TaskGrid& grid = c.p.grids[g];
  if (c.forms.of(range.offset).is_const(0) && c.forms.equal(range.size, dim))
    return {.kind = Along::Kind::kWhole};
  if (std::optional<Along> found = as_table(grid, range, dim)) return *std::move(found);
  if (std::optional<Along> found = as_spans(c, grid, range, dim)) return *std::move(found);
  if (std::optional<Along> found = as_element(c, grid, range, dim)) return *std::move(found);
  return {};
}

bool disjoint(const Along& along) {
  switch (along.kind) {
    case Along::Kind::kWhole:
    case Along::Kind::kOther:
      return false;
    case Along::Kind::kEach:
    case Along::Kind::kRagged:
    case Along::Kind::kSpans:
      return true;
    case Along::Kind::kTable:
      break;
  }
  std::vector<Interval> sorted = along.intervals;
  std::erase_if(sorted, [](const Interval& i) { return i.first >= i.second; });
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].first < sorted[i - 1].second) return false;
  return along.moves();
}

bool meet_only_if_equal(const Along& a, const Along& b) {
  using enum Along::Kind;
  if (a.kind == kSpans && b.kind == kSpans)
    return a.spans.starts == b.spans.starts && a.starts_table == b.starts_table &&
           a.lengths_table == b.lengths_table && a.count_table == b.count_table;
  const auto is_element = [](const Along& x) { return x.kind == kEach || x.kind == kRagged; };
  return is_element(a) && is_element(b);
}

}  // namespace mkc::proof
