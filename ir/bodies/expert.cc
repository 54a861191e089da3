#include <fmt/format.h>

#include "ir/bodies/strips.h"
#include "ir/values.h"

namespace mkc {
namespace {

using enum OperandKind;

std::optional<Region> expert_footprint(const FootprintOf& s) {
  const int64_t strips = task_strips(s.grid);
  if (s.is("weight")) return Region{s.all(0), s.block(strips * kTileRows, 1), s.all(2)};
  if (s.is("bias") || s.is("up_bias")) return Region{s.all(0), s.block(strips * strip_columns(s.grid), 1)};
  if (!s.is("out") && !s.is("rows") && !s.is("token")) return s.whole();
  const StepSymbols step = step_symbols(s.program.symbols);
  if (!step.active_expert_begin.valid() || !step.active_expert_rows.valid()) return std::nullopt;
  const Range rows = interval(step.active_expert_begin, step.active_expert_rows, 1, s.dims[0]);
  if (s.is("token")) return Region{rows};
  return Region{rows, s.is("out") ? s.block(strips * strip_columns(s.grid), 1) : s.all(1)};
}

// Checks V15 and V18: tokens' rows are gathered by the table of tokens, rows of experts by no table.
void check_expert_rows(const GridUnderCheck& c) {
  const bool x = c.reads("x");
  if (x == c.reads("rows") || x != c.reads("token"))
    c.v.report(15, c.site, "it reads some of x, rows and token, expected x and token, or rows alone");
  if (c.reads("sum_squares") && !x) c.v.report(15, c.site, "it reads sum_squares of tokens, expected x");
  const int64_t top_k = int_attr(c.grid.attrs, "top_k", 0), choices = routing_of(c.program.symbols).choices;
  if (top_k != choices)
    c.v.report(18, c.site, fmt::format("top_k is {}, active_experts begins at {}", top_k, choices));
}

// Checks the rows, the strips, V17 of the biases, and V19: coordinate 1 runs over the active experts.
void check_expert(const GridUnderCheck& c) {
  check_expert_rows(c);
  check_strips(c);
  const bool paired = c.reads("bias") && int_attr(c.grid.attrs, "gate", 0) != 0;
  if (c.reads("up_bias") != paired)
    c.v.report(17, c.site, "a bias and a gate need an up_bias, and an up_bias needs both");
  const SymbolId active = step_symbols(c.program.symbols).active_experts;
  const bool counted = active.valid() && c.program.symbols[active].routed;
  if (c.grid.coords.size() == 2 && (!counted || c.grid.coords[1].extent != symbol(active)))
    c.v.report(19, c.site,
               fmt::format("coordinate {} has extent {}, expected active_experts, which is routed",
                           c.grid.coords[1].name, c.v.text.expr(c.grid.coords[1].extent)));
}

}  // namespace

const Body& expert_body() {
  static const Body body = {
      .kind = BodyKind::kExpert,
      .name = "expert",
      .schema = {{{"j", "S"}, {"s", ""}},
                 {{"x?", {kEither, "TK"}},
                  {"rows?", {kEither, "RK"}},
                  {"weight", {kWeight, "XNK"}},
                  {"norm?", {kVector, "K"}},
                  {"sum_squares?", {kValue, "TP"}},
                  {"bias?", {kVector, "XO"}},
                  {"up_bias?", {kVector, "XO"}},
                  {"active_experts", {kIndex, "1"}},
                  {"expert", {kIndex, "X"}},
                  {"active_expert_rows", {kIndex, "X"}},
                  {"active_expert_begin", {kIndex, "X"}},
                  {"token?", {kIndex, "R"}}},
                 {{"out", {kEither, "RO"}}},
                 {"gate?", "strips?", "top_k"},
                 {"eps?"}},
      .footprint = expert_footprint,
      .check = check_expert,
      .lookups = {"active_experts", "expert", "active_expert_rows", "active_expert_begin", "token"}};
  return body;
}

}  // namespace mkc
