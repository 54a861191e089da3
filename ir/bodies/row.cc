#include <fmt/format.h>

#include "ir/bodies/body.h"

namespace mkc {
namespace {

using enum OperandKind;

std::optional<Region> row_footprint(const FootprintOf& s) {
  const int64_t columns = row_columns(s.program, s.grid);
  const Expr& cols = s.program.tensors[find_operand(s.grid, "out", true)->tensor].shape[1];
  const bool one_block = cols.is_const() && cols.constant() <= columns;
  const Range block = one_block ? Range{0, cols} : block_range(columns, cols, 1);
  if (s.is("norm") || s.is("norm_bias") || s.is("rope") || s.is("active_experts")) return s.whole();
  if (s.is("x") && int_attr(s.grid.attrs, "gather_rows", 0) != 0) return Region{s.all(0), block};
  if (s.is("positions")) return Region{each(0)};
  if (s.is("next_norm")) return Region{block};
  if (s.is("sum_squares")) return Region{each(0), each(1)};
  if (s.is("best_value") || s.is("best_index"))
    return Region{each(0), one_block ? s.all(1) : s.block(columns / kTileRows, 1, 1)};
  return Region{each(0), block};
}

void set_row_extents(const TaskProgram& program, const TaskGrid& grid,
                     std::vector<std::optional<Expr>>& extents) {
  const Access* out = find_operand(grid, "out", true);
  if (out && extents.size() == 2)
    extents[1] = ceil_div(program.tensors[out->tensor].shape[1], row_columns(program, grid));
}

// RowCheck checks what a row grid's steps, norm and rotation need of each other.
struct RowCheck : GridUnderCheck {
  bool has_attr(const std::string& name) const { return find_attr(grid.attrs, name) != nullptr; }

  // Checks step `i` and returns it. `ended` tells whether an earlier number has no step.
  mkrt::RowStep check_step(uint32_t i, bool ended) const {
    const std::string name = fmt::format("step{}", i), value = fmt::format("value{}", i);
    const int64_t kind = int_attr(grid.attrs, name, 0);
    const bool known = is_known(static_cast<mkrt::RowStep>(kind));
    const auto step = known ? static_cast<mkrt::RowStep>(kind) : mkrt::RowStep::kNone;
    if (has_attr(name) && (!known || ended))
      v.report(18, site,
               fmt::format("{} is {}, expected a step of runtime/abi/row_steps.h, numbered from 0 on", name,
                           kind));
    if (has_attr(value) != has_value(step))
      v.report(18, site,
               fmt::format("it has {}{}, its {} has {}", has_attr(value) ? "" : "no ", value, name,
                           has_value(step) ? "one" : "none"));
    return step;
  }

  // Checks V15 and V18: steps follow each other and have the operands and constants that they need.
  void check_steps() const {
    bool ended = false;
    uint32_t wanted = 0, found = 0;
    for (uint32_t i = 0; i < mkrt::kMaxRowSteps; ++i) {
      const mkrt::RowStep step = check_step(i, ended);
      ended |= step == mkrt::RowStep::kNone;
      wanted += has_operand(step);
    }
    while (found < mkrt::kMaxRowOperands && reads(fmt::format("operand{}", found))) ++found;
    const bool gap = found == 0 && reads("operand1");
    if (wanted != found || gap)
      v.report(15, site,
               fmt::format("its steps have {} operands, it reads {} from operand0 on", wanted, found));
  }

  // Checks V15, V17 and V18: a norm takes rows or heads, a rotation takes heads.
  void check_heads(int64_t columns) const {
    const int64_t head = int_attr(grid.attrs, "head_dim", 0), normed = size('N');
    if (reads("rope") != has_attr("head_dim") || (reads("rope") && (head < 2 || columns % head != 0)))
      v.report(
          18, site,
          fmt::format("head_dim is {}, expected a divisor of {} if it rotates, none if not", head, columns));
    if (reads("norm") != has_attr("eps") || (reads("norm_bias") && !reads("norm")))
      v.report(15, site, "it has some of norm and eps, or norm_bias alone");
    if (reads("norm") && (normed == 0 || columns % normed != 0))
      v.report(17, site, fmt::format("its norm has {} columns, expected a divisor of {}", normed, columns));
    if (reads("norm") && reads("rope") && normed != head)
      v.report(17, site, fmt::format("its norm has {} columns, its rotation {}", normed, head));
    if ((reads("rope") || (reads("norm") && normed != columns)) && writes("best_value"))
      v.report(15, site, "it writes best_value, expected of rows without heads");
  }

  // Checks V17: out has the rows of x, unless they are gathered.
  void check_shape() const {
    const auto x = sizes.find('X'), out = sizes.find('T');
    if (int_attr(grid.attrs, "gather_rows", 0) != 0 || x == sizes.end() || out == sizes.end()) return;
    if (x->second != out->second)
      v.report(17, site,
               fmt::format("x has {} rows, out has {}", v.text.expr(x->second), v.text.expr(out->second)));
  }
};

void check_row(const GridUnderCheck& c) {
  const RowCheck row{c};
  row.check_steps();
  row.check_shape();
  c.check_gathered();
  c.check_positions();
  c.check_sums();
  const int64_t columns = c.size('D');
  if (columns == 0) return c.v.report(17, c.site, "its rows have no constant number of columns");
  c.check_best(columns);
  row.check_heads(columns);
}

}  // namespace

int64_t norm_columns(const TaskProgram& program, const TaskGrid& row) {
  const Access* norm = find_operand(row, "norm");
  return norm ? program.tensors[norm->tensor].shape[0].constant() : 0;
}

int64_t row_columns(const TaskProgram& program, const TaskGrid& row) {
  const int64_t cols = program.tensors[find_operand(row, "out", true)->tensor].shape[1].constant(),
                normed = norm_columns(program, row),
                head = std::max(normed, int_attr(row.attrs, "head_dim", 0));
  if (normed == cols || head == 0) return normed == 0 ? kRowColumns : cols;
  return std::max<int64_t>(1, kRowColumns / head) * head;
}

const Body& row_body() {
  static const Body body = {
      .kind = BodyKind::kRow,
      .name = "row",
      .schema = {{{"t", "T"}, {"c", ""}},
                 {{"x", {kValue, "XD"}},
                  {"norm?", {kVector, "N"}},
                  {"norm_bias?", {kVector, "N"}},
                  {"positions?", {kStep, "T"}},
                  {"rope?", {kTable, "Rh"}},
                  {"operand0?", {kValue, "TD"}},
                  {"operand1?", {kValue, "TD"}},
                  {"active_experts?", {kIndex, "1"}},
                  {"next_norm?", {kVector, "D"}}},
                 {{"out", {kEither, "TD"}},
                  {"x_bf16?", {kBf16Value, "TD"}},
                  {"sum_squares?", {kValue, "TP"}},
                  {"best_value?", {kValue, "TS"}},
                  {"best_index?", {kIndex, "TS"}}},
                 {"centered?", "gather_rows?", "head_dim?", "step0?", "step1?", "step2?", "step3?"},
                 {"eps?", "value0?", "value1?", "value2?", "value3?"}},
      .footprint = row_footprint,
      .set_extents = set_row_extents,
      .check = check_row,
      .lookups = {"active_experts"}};
  return body;
}

}  // namespace mkc
