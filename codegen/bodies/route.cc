#include <cstddef>

#include "codegen/bodies/code.h"
#include "codegen/device/bodies.h"
#include "ir/bodies.h"

namespace mkc {
namespace {

llvm::Value* route_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::RouteArgs;
  static_assert(mk::kMaxExperts == kMaxExperts && mk::kMaxTopK == kMaxTopK);
  Fields f{e, call, e.local(sizeof(A))};
  f.set_operand(offsetof(A, logits), "logits");
  f.set_operand(offsetof(A, routing_weight), "routing_weight", true);
  f.set_operand(offsetof(A, active_experts), "active_experts", true);
  f.set_operand(offsetof(A, expert), "expert", true);
  f.set_operand(offsetof(A, active_expert_rows), "active_expert_rows", true);
  f.set_operand(offsetof(A, active_expert_begin), "active_expert_begin", true);
  f.set_operand(offsetof(A, token), "token", true);
  f.set_operand(offsetof(A, row), "row", true);
  f.set(offsetof(A, tokens), e.value(f.tensor("logits").shape[0]));
  f.set(offsetof(A, experts), f.extent(f.tensor("logits"), 1));
  f.set(offsetof(A, top_k), int_attr(f.grid().attrs, "top_k", 0));
  f.set(offsetof(A, norm_topk), int_attr(f.grid().attrs, "norm_topk", 0));
  return f.base;
}

void route_task(Emitter& e, const BodyCall& call, const TaskCall& t) {
  e.call("mkb_route", {call.worker, t.arguments});
}

}  // namespace

const BodyCode kRouteCode = {.arguments = route_arguments, .task = route_task};

}  // namespace mkc
