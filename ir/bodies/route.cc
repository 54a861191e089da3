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

// Checks V17 and V18: tables have room for the experts and for a token's choices.
void check_limits(const GridUnderCheck& c) {
  const int64_t experts = c.size('X'), top_k = int_attr(c.grid.attrs, "top_k", 0);
  if (experts < 1 || experts > kMaxExperts)
    c.v.report(17, c.site, fmt::format("it routes to {} experts, expected 1 to {}", experts, kMaxExperts));
  if (top_k < 1 || top_k > kMaxTopK)
    c.v.report(18, c.site, fmt::format("top_k is {}, expected 1 to {}", top_k, kMaxTopK));
  if (const int64_t norm = int_attr(c.grid.attrs, "norm_topk", 0); norm != 0 && norm != 1)
    c.v.report(18, c.site, fmt::format("norm_topk is {}, expected 0 or 1", norm));
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
                            .check = check_limits,
                            .check_regions = check_route_regions};
  return body;
}

}  // namespace mkc
