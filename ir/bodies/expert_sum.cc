#include "ir/bodies/body.h"

namespace mkc {
namespace {

using enum OperandKind;

std::optional<Region> expert_sum_footprint(const FootprintOf& s) {
  if (s.is("routing_weight") || s.is("row")) return Region{each(0), s.all(1)};
  if (s.is("sum_squares")) return Region{each(0), each(1)};
  if (s.is("next_norm")) return Region{s.block(kExpertSumColumns, 0, 1)};
  if (s.is("x")) return Region{s.all(0), s.block(kExpertSumColumns, 1, 1)};
  if (s.is("active_experts")) return s.whole();
  return Region{each(0), s.block(kExpertSumColumns, 1, 1)};
}

void set_expert_sum_extents(const TaskProgram& program, const TaskGrid& grid,
                            std::vector<std::optional<Expr>>& extents) {
  const Access* out = find_operand(grid, "out", true);
  if (out && extents.size() == 2)
    extents[1] = ceil_div(program.tensors[out->tensor].shape[1], kExpertSumColumns);
}

void check_expert_sum(const GridUnderCheck& c) {
  c.check_sums();
}

}  // namespace

const Body& expert_sum_body() {
  static const Body body = {
      .kind = BodyKind::kExpertSum,
      .name = "expert_sum",
      .schema = {{{"t", "T"}, {"c", ""}},
                 {{"x", {kValue, "RD"}},
                  {"routing_weight", {kValue, "Tk"}},
                  {"active_experts", {kIndex, "1"}},
                  {"row", {kIndex, "Tk"}},
                  {"residual?", {kValue, "TD"}},
                  {"next_norm?", {kVector, "D"}}},
                 {{"out", {kValue, "TD"}}, {"x_bf16?", {kBf16Value, "TD"}}, {"sum_squares?", {kValue, "TP"}}},
                 {},
                 {}},
      .footprint = expert_sum_footprint,
      .set_extents = set_expert_sum_extents,
      .check = check_expert_sum,
      .lookups = {"active_experts"}};
  return body;
}

}  // namespace mkc
