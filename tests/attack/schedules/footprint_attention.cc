#include <algorithm>

#include "tests/attack/schedules/footprint_touch.h"

namespace mkc::attack {
namespace {

// Touches the operands of a block's rows that become keys and values.
void touch_keys(TouchList& t, const RowBlock& b, int64_t head, Span rows) {
  const int64_t h = t.attr("head_dim", 0);
  const Span cols{head * h, (head + 1) * h};
  t.read("k", {rows, cols});
  t.read("v", {rows, cols});
  const int64_t first = b.fresh() + rows.lo - b.first_row;
  t.maybe_read("rope", {{first, first + rows.hi - rows.lo}, {0, h}});
  t.maybe_read("k_norm", {{0, h}});
}

void touch_cache(TouchList& t, const RowBlock& b, int64_t head, Span positions, bool writes, Toucher by) {
  if (positions.lo >= positions.hi) return;
  const Span request{b.request, b.request + 1}, heads{head, head + 1}, h{0, t.attr("head_dim", 0)};
  for (const char* role : {"k_cache", "v_cache"})
    writes ? t.write(role, {request, heads, positions, h}) : t.read(role, {request, heads, positions, h}, by);
}

void touch_append(TouchList& t, const RowBlock& b, int64_t head) {
  touch_keys(t, b, head, {b.first_row, b.first_row + b.rows});
  touch_cache(t, b, head, {b.fresh(), b.kv_len}, true, Toucher::kTask);
}

// Touches rows of partials, which attend writes and combine reads.
void touch_part(TouchList& t, const RowBlock& b, int64_t head, Span parts, Span rows, bool writes) {
  const int64_t h = t.attr("head_dim", 0),
                group = t.attr("heads", 0) / std::max<int64_t>(1, t.attr("kv_heads", 1));
  const Span acc{head * group * h, (head + 1) * group * h}, ml{head * group * 2, (head + 1) * group * 2};
  const Span at{b.first_row + rows.lo, b.first_row + rows.hi};
  if (writes) {
    t.write("partial_acc", {parts, at, acc});
    t.write("partial_ml", {parts, at, ml});
    return;
  }
  t.read("partial_acc", {parts, at, acc});
  t.read("partial_ml", {parts, at, ml});
}

void touch_attend(TouchList& t, const RowBlock& b, int64_t head, int64_t part) {
  const int64_t window = t.attr("window", 0), size = part_positions_of(t.s, t.step, t.grid);
  const int64_t h = t.attr("head_dim", 0),
                group = t.attr("heads", 0) / std::max<int64_t>(1, t.attr("kv_heads", 1));
  const int64_t begin = b.first_kv_tile(window) * kKvTilePositions + part * size;
  const int64_t seen = std::max(begin, RowBlock::first_seen(b.fresh(), window)),
                end = std::min(begin + size, b.kv_len);
  if (end <= seen) throw Finding{"outside", "a part of attention that no row sees"};
  const Span rows{b.first_row, b.first_row + b.rows};
  t.read("q", {rows, {head * group * h, (head + 1) * group * h}});
  t.maybe_read("rope", {{b.fresh(), b.kv_len}, {0, h}});
  t.maybe_read("q_norm", {{0, h}});
  touch_cache(t, b, head, {seen, std::min(end, b.earlier())}, false, Toucher::kStream);
  int64_t own = end;  // first position that the task reads as it has written it itself
  if (b.last_of_request()) {
    own = std::clamp(b.fresh(), begin, end);
    if (own < end) touch_keys(t, b, head, {b.first_row + own - b.fresh(), b.first_row + end - b.fresh()});
    touch_cache(t, b, head, {own, end}, true, Toucher::kTask);
  }
  touch_cache(t, b, head, {std::max(seen, b.earlier()), own}, false, Toucher::kTask);
  touch_part(t, b, head, {part, part + 1}, {0, b.rows}, true);
}

// Combine reads for each row the partials that the row sees.
void touch_combine(TouchList& t, const RowBlock& b, int64_t head) {
  const int64_t window = t.attr("window", 0), size = part_positions_of(t.s, t.step, t.grid);
  const int64_t h = t.attr("head_dim", 0),
                group = t.attr("heads", 0) / std::max<int64_t>(1, t.attr("kv_heads", 1));
  const int64_t first = b.first_kv_tile(window) * kKvTilePositions;
  const auto parts_of = [&](int64_t row) {
    const int64_t last = b.fresh() + row,
                  from = RowBlock::first_seen(last, window) / kKvTilePositions * kKvTilePositions;
    return Span{(from - first) / size, (last - first) / size + 1};
  };
  for (int64_t row = 0, end; row < b.rows; row = end) {  // rows of the same partials go together
    const Span parts = parts_of(row);
    for (end = row + 1; end < b.rows; ++end)
      if (const Span p = parts_of(end); p.lo != parts.lo || p.hi != parts.hi) break;
    touch_part(t, b, head, parts, {row, end}, false);
  }
  t.maybe_read("sinks", {{head * group, (head + 1) * group}});
  t.write("out", {{b.first_row, b.first_row + b.rows}, {head * group * h, (head + 1) * group * h}});
}

}  // namespace

int64_t part_positions_of(const Schedule& s, const Step& step, const TaskGrid& grid) {
  const SymbolId part = find_symbol(s.program.symbols, "partial_positions");
  return part.valid() && int_attr(grid.attrs, "window", 0) == 0 ? step.values[part.index] : kKvTilePositions;
}

RowBlock row_block(const Schedule& s, const Step& step, int64_t k) {
  const Symbols& symbols = s.program.symbols;
  RowBlock b{};
  b.request = step.element(symbols, "block_request", k);
  b.first_row = step.element(symbols, "block_first_row", k);
  b.rows = step.element(symbols, "block_rows", k);
  b.kv_len = step.element(symbols, "block_kv_len", k);
  b.context = step.element(symbols, "kv_len", b.request);
  b.step_rows = step.element(symbols, "q_len", b.request);
  return b;
}

void touch_attention(TouchList& t, std::span<const int64_t> coords) {
  const RowBlock b = row_block(t.s, t.step, coords[1]);
  if (t.grid.body == BodyKind::kAppend) return touch_append(t, b, coords[0]);
  if (t.grid.body == BodyKind::kCombine) return touch_combine(t, b, coords[0]);
  if (coords.size() < 3) throw Finding{"footprint", "too few coordinates"};
  touch_attend(t, b, coords[0], coords[2]);
}

}  // namespace mkc::attack
