#include <fmt/format.h>

#include "ir/bodies/body.h"
#include "ir/values.h"

namespace mkc {
namespace {

using enum OperandKind;

std::optional<Region> route_footprint(const FootprintOf& s) {
  return s.whole();
}

// Checks V34 of active_experts. At least as many experts are active as one token chooses, and at most all.
void check_route_regions(Verifier& v, const TaskProgram& program, const TaskGrid& grid, const Site& site) {
  const Expr& experts = program.tensors[find_operand(grid, "logits")->tensor].shape[1];
  const Routing found = routing_of(program.symbols);
  const int64_t choices = int_attr(grid.attrs, "top_k", 0);
  if (found.choices != choices || !experts.is_const(found.experts))
    v.report(34, site,
             fmt::format("active_experts is {} to {}, expected {} choices to {} experts", found.choices,
                         found.experts, choices, v.text.expr(experts)));
}

}  // namespace

const Body& route_body() {
  static const Body body = {.kind = BodyKind::kRoute,
                            .name = "route",
                            .schema = {{},
                                       {{"logits", {kValue, "TX"}}},
                                       {{"routing_weight", {kValue, "Tk"}},
                                        {"active_experts", {kIndex, "1"}},
                                        {"expert", {kIndex, "X"}},
                                        {"active_expert_rows", {kIndex, "X"}},
                                        {"active_expert_begin", {kIndex, "X"}},
                                        {"token", {kIndex, "R"}},
                                        {"row", {kIndex, "Tk"}}},
                                       {"norm_topk", "top_k"},
                                       {}},
                            .footprint = route_footprint,
                            .check_regions = check_route_regions};
  return body;
}

}  // namespace mkc
