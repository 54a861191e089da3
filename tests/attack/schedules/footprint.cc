#include "tests/attack/schedules/footprint.h"

#include <algorithm>

#include "runtime/abi/packing.h"
#include "tests/attack/schedules/footprint_touch.h"

namespace mkc::attack {

bool Box::empty() const {
  for (size_t d = 0; d < rank; ++d)
    if (hi[d] <= lo[d]) return true;
  return false;
}

bool Box::contains(const Box& other) const {
  if (rank != other.rank) return false;
  for (size_t d = 0; d < rank; ++d)
    if (other.lo[d] < lo[d] || other.hi[d] > hi[d]) return false;
  return true;
}

namespace {

constexpr int64_t kStrip = mkrt::kStripRows;
constexpr int64_t kSliceCount = mkrt::kKSlices;

Span only(int64_t i) {
  return {i, i + 1};
}
Span up_to(int64_t n) {
  return {0, n};
}
// Returns block `i` of `size` elements each, of `all`.
Span block_of(int64_t i, int64_t size, int64_t all) {
  return {i * size, std::min((i + 1) * size, all)};
}

void touch_embed(TouchList& t, int64_t token) {
  const int64_t cols = t.dim("table", 1);
  t.read("tokens", {only(token)});
  t.read("table", {up_to(t.dim("table", 0)), up_to(cols)});  // the host says which row
  t.maybe_read("next_norm", {up_to(cols)});
  t.write("out", {only(token), up_to(cols)});
  t.maybe_write("x_bf16", {only(token), up_to(cols)});
  t.maybe_write("sum_squares", {only(token), only(0)});
}

// Touches what is added to a strip's sums, and what becomes of them.
void touch_epilogue(TouchList& t, int64_t strip, int64_t rows) {
  const int64_t cols = t.dim("out", 1, true);
  const bool gated = t.attr("gate", 0) != 0;
  const Span made = block_of(strip, gated ? kStrip / 2 : kStrip, cols);
  t.maybe_read("bias", {made});
  t.maybe_read("residual", {up_to(rows), made});
  t.maybe_read("next_norm", {made});
  t.write("out", {up_to(rows), made});
  t.maybe_write("x_bf16", {up_to(rows), made});
  t.maybe_write("sum_squares", {up_to(rows), only(strip)});
  t.maybe_write("best_value", {up_to(rows), only(strip)});
  t.maybe_write("best_index", {up_to(rows), only(strip)});
}

// Returns the columns of share `part` of `parts` of a split weight.
Span columns_of(TouchList& t, int64_t part, int64_t parts) {
  const int64_t cols = t.dim("weight", 1);
  const auto shape = mkrt::packed_shape(static_cast<uint64_t>(t.dim("weight", 0)),
                                        static_cast<uint64_t>(cols), weight_type(t.tensor("weight")));
  const auto padded = static_cast<int64_t>(shape.padded_cols);
  return {std::min(cols, part * padded / parts), std::min(cols, (part + 1) * padded / parts)};
}

void touch_product(TouchList& t, int64_t strip) {
  const int64_t rows = t.dim("out", 0, true), cols = t.dim("weight", 1);
  const bool coded = t.has("codes") && rows >= t.attr("wgmma_from", 0);
  const int64_t taken = t.attr("gather_rows", 0) != 0 ? t.dim("x", 0) : rows;
  if (coded) {
    t.read("codes", {up_to(rows), up_to(cols)});
    t.read("code_scale", {up_to(rows), only(0)});
  } else {
    t.read("x", {up_to(taken), up_to(cols)});
  }
  t.read("weight", {block_of(strip, kStrip, t.dim("weight", 0)), up_to(cols)}, Toucher::kStream);
  t.maybe_read("norm", {up_to(cols)});
  if (t.has("sum_squares")) t.read("sum_squares", {up_to(taken), up_to(t.dim("sum_squares", 1))});
  touch_epilogue(t, strip, rows);
}

void touch_split_k_partial(TouchList& t, int64_t part, int64_t strip) {
  const Expr& extent = t.grid.coords[0].extent;
  const int64_t parts = extent.is_const() ? extent.constant() : 0;
  if (parts != 2 && parts != 4 && parts != 8)
    throw Finding{"footprint", "parts that share out no 8 K slices"};
  const int64_t rows = t.dim("sums", 2, true), k_slices = kSliceCount / parts;
  const Span cols = columns_of(t, part, parts);
  t.read("x", {up_to(rows), cols});
  t.read("weight", {block_of(strip, kStrip, t.dim("weight", 0)), cols}, Toucher::kStream);
  t.maybe_read("norm", {cols});
  t.write("sums", {only(strip), {part * k_slices, (part + 1) * k_slices}, up_to(rows), up_to(kStrip)});
}

void touch_split_k_reduce(TouchList& t, int64_t strip) {
  const int64_t rows = t.dim("sums", 2);
  t.read("sums", {only(strip), up_to(kSliceCount), up_to(rows), up_to(kStrip)});
  if (t.has("sum_squares")) t.read("sum_squares", {up_to(rows), up_to(t.dim("sum_squares", 1))});
  touch_epilogue(t, strip, rows);
}

void touch_sample(TouchList& t, int64_t b) {
  const Symbols& symbols = t.s.program.symbols;
  const int64_t wanted = t.dim("logits", 0), tokens = t.step.at(symbol(find_symbol(symbols, "T")));
  const int64_t row = wanted == tokens
                          ? t.step.element(symbols, "first_row", b) + t.step.element(symbols, "q_len", b) - 1
                          : b;
  const int64_t vocab = t.dim("logits", 1), strips = (vocab + kStrip - 1) / kStrip;
  t.read("logits", {only(row), up_to(vocab)});
  t.read("best_value", {only(row), up_to(strips)});
  t.read("best_index", {only(row), up_to(strips)});
  t.write("next", {only(b)});
}

void touch_route(TouchList& t) {
  const int64_t rows = t.dim("logits", 0), choices = t.attr("top_k", 0);
  const auto active_experts = static_cast<int64_t>(t.step.active_expert_rows.size());
  t.read("logits", {up_to(rows), up_to(t.dim("logits", 1))});
  t.write("routing_weight", {up_to(rows), up_to(choices)});
  t.write("row", {up_to(rows), up_to(choices)});
  t.write("active_experts", {only(0)});
  for (const char* table : {"expert", "active_expert_rows", "active_expert_begin"})
    t.write(table, {up_to(active_experts)});
  t.write("token", {up_to(rows * choices)});
}

void touch_expert(TouchList& t, int64_t block, int64_t active_expert) {
  if (active_expert >= static_cast<int64_t>(t.step.active_expert_rows.size()))
    throw Finding{"outside", "an expert without rows"};
  int64_t begin = 0;
  for (int64_t i = 0; i < active_expert; ++i) begin += t.step.active_expert_rows[static_cast<size_t>(i)];
  const Span rows{begin, begin + t.step.active_expert_rows[static_cast<size_t>(active_expert)]};
  const int64_t cols = t.dim("weight", 2), strips = t.attr("strips", 1);
  if (t.has("x")) t.read("x", {up_to(t.dim("x", 0)), up_to(cols)});  // the router says which rows
  t.maybe_read("rows", {rows, up_to(cols)});
  t.read("weight",
         {up_to(t.dim("weight", 0)), block_of(block, kStrip * strips, t.dim("weight", 1)), up_to(cols)},
         Toucher::kStream);
  t.maybe_read("norm", {up_to(cols)});
  if (t.has("sum_squares"))
    t.read("sum_squares", {up_to(t.dim("sum_squares", 0)), up_to(t.dim("sum_squares", 1))});
  t.read("active_experts", {only(0)});
  for (const char* table : {"expert", "active_expert_rows", "active_expert_begin"})
    t.read(table, {only(active_expert)});
  t.maybe_read("token", {rows});
  const int64_t width = t.attr("gate", 0) != 0 ? kStrip / 2 : kStrip;
  const Span made = block_of(block, width * strips, t.dim("out", 1, true));
  for (const char* role : {"bias", "up_bias"})  // the router says which experts
    if (t.has(role)) t.read(role, {up_to(t.dim(role, 0)), made});
  t.write("out", {rows, made});
}

void touch_expert_sum(TouchList& t, int64_t token, int64_t block) {
  const Span cols = block_of(block, kExpertSumColumns, t.dim("x", 1));
  const int64_t choices = t.dim("routing_weight", 1);
  t.read("x", {up_to(t.dim("x", 0)), cols});  // the router says which rows
  t.read("routing_weight", {only(token), up_to(choices)});
  t.read("row", {only(token), up_to(choices)});
  t.maybe_read("residual", {only(token), cols});
  t.maybe_read("next_norm", {cols});
  t.write("out", {only(token), cols});
  t.maybe_write("x_bf16", {only(token), cols});
  t.maybe_write("sum_squares", {only(token), only(block)});
}

void touch_quantize(TouchList& t, int64_t row) {
  const int64_t cols = t.dim("x", 1);
  t.read("x", {only(row), up_to(cols)});
  if (t.has("sum_squares")) t.read("sum_squares", {only(row), up_to(t.dim("sum_squares", 1))});
  t.write("codes", {only(row), up_to(cols)});
  t.write("code_scale", {only(row), only(0)});
}

// A block has whole heads where a norm or a rotation takes heads, and a whole row where a norm takes rows.
void touch_row(TouchList& t, int64_t row, int64_t block) {
  const int64_t cols = t.dim("out", 1, true), normed = t.has("norm") ? t.dim("norm", 0) : 0,
                head = std::max(t.attr("head_dim", 0), normed);
  int64_t width = 512;
  if (head != 0) width = normed == cols ? cols : std::max<int64_t>(1, width / head) * head;
  const Span span = block_of(block, width, cols);
  const int64_t rows = t.dim("x", 0);
  t.read("x", {t.attr("gather_rows", 0) != 0 ? up_to(rows) : only(row), span});
  for (const char* role : {"norm", "norm_bias"}) t.maybe_read(role, {up_to(normed)});
  t.maybe_read("positions", {only(row)});
  if (t.has("rope")) t.read("rope", {up_to(t.dim("rope", 0)), up_to(t.dim("rope", 1))});
  for (const char* role : {"operand0", "operand1"}) t.maybe_read(role, {only(row), span});
  t.maybe_read("next_norm", {span});
  t.write("out", {only(row), span});
  t.maybe_write("x_bf16", {only(row), span});
  t.maybe_write("sum_squares", {only(row), only(block)});
  const Span strips{span.lo / kStrip, (span.hi + kStrip - 1) / kStrip};
  for (const char* role : {"best_value", "best_index"}) t.maybe_write(role, {only(row), strips});
}

}  // namespace

void touches_of_task(const Schedule& s, const Step& step, GridId grid, std::span<const int64_t> coords,
                     std::vector<Touch>& out) {
  TouchList t(s, step, grid, out);
  const auto c = [&](size_t i) {
    if (i >= coords.size()) throw Finding{"footprint", "too few coordinates"};
    return coords[i];
  };
  switch (t.grid.body) {
    case BodyKind::kEmbed:
      return touch_embed(t, c(0));
    case BodyKind::kProduct:
      return touch_product(t, c(0));
    case BodyKind::kAppend:
    case BodyKind::kAttend:
    case BodyKind::kCombine:
      c(1);
      return touch_attention(t, coords);
    case BodyKind::kSample:
      return touch_sample(t, c(0));
    case BodyKind::kRoute:
      return touch_route(t);
    case BodyKind::kExpert:
      return touch_expert(t, c(0), c(1));
    case BodyKind::kExpertSum:
      return touch_expert_sum(t, c(0), c(1));
    case BodyKind::kSplitKPartial:
      return touch_split_k_partial(t, c(0), c(1));
    case BodyKind::kSplitKReduce:
      return touch_split_k_reduce(t, c(0));
    case BodyKind::kRow:
      return touch_row(t, c(0), c(1));
    case BodyKind::kQuantize:
      return touch_quantize(t, c(0));
  }
}

void touches_of_lookup(const Schedule& s, const Step& step, GridId grid, std::vector<Touch>& out) {
  TouchList t(s, step, grid, out);
  const auto active_experts = static_cast<int64_t>(step.active_expert_rows.size());
  if (t.grid.body != BodyKind::kExpert && t.grid.body != BodyKind::kExpertSum) return;
  t.read("active_experts", {only(0)}, Toucher::kLookup);
  if (t.grid.body != BodyKind::kExpert) return;
  t.read("active_experts", {only(0)}, Toucher::kTable);
  t.read("active_expert_begin", {up_to(active_experts)}, Toucher::kLookup);
  if (t.has("token")) t.read("token", {up_to(t.dim("token", 0))}, Toucher::kLookup);
}

}  // namespace mkc::attack
