#include <fmt/format.h>

#include "ir/verifier.h"

namespace mkc {
namespace {

// A row grid under check. `sizes` has the sizes of the letters of its operands' shapes.
struct RowCheck {
  Verifier& v;
  const TaskGrid& grid;
  const Sizes& sizes;
  const Site& site;

  bool has(std::string_view role, bool written = false) const {
    return find_operand(grid, role, written) != nullptr;
  }
  bool has_attr(const std::string& name) const { return find_attr(grid.attrs, name) != nullptr; }
  // Returns the size of a letter, or 0 where it has none that is constant.
  int64_t size(char letter) const {
    const auto at = sizes.find(letter);
    return at != sizes.end() && at->second.is_const() ? at->second.constant() : 0;
  }

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
    while (found < mkrt::kMaxRowOperands && has(fmt::format("operand{}", found))) ++found;
    const bool gap = found == 0 && has("operand1");
    if (wanted != found || gap)
      v.report(15, site,
               fmt::format("its steps have {} operands, it reads {} from operand0 on", wanted, found));
  }

  // Checks V15, V17 and V18: a norm takes rows or heads, a rotation takes heads.
  void check_heads(int64_t columns) const {
    const int64_t head = int_attr(grid.attrs, "head_dim", 0), normed = size('N');
    if (has("rope") != has_attr("head_dim") || (has("rope") && (head < 2 || columns % head != 0)))
      v.report(
          18, site,
          fmt::format("head_dim is {}, expected a divisor of {} if it rotates, none if not", head, columns));
    if (has("norm") != has_attr("eps") || (has("norm_bias") && !has("norm")))
      v.report(15, site, "it has some of norm and eps, or norm_bias alone");
    if (has("norm") && (normed == 0 || columns % normed != 0))
      v.report(17, site, fmt::format("its norm has {} columns, expected a divisor of {}", normed, columns));
    if (has("norm") && has("rope") && normed != head)
      v.report(17, site, fmt::format("its norm has {} columns, its rotation {}", normed, head));
    if ((has("rope") || (has("norm") && normed != columns)) && has("best_value", true))
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

}  // namespace

void check_row_grid(Verifier& v, const TaskGrid& grid, const Sizes& sizes, const Site& site) {
  const RowCheck check{v, grid, sizes, site};
  check.check_steps();
  check.check_shape();
  const int64_t columns = check.size('D');
  if (columns == 0) return v.report(17, site, "its rows have no constant number of columns");
  check.check_heads(columns);
}

}  // namespace mkc
