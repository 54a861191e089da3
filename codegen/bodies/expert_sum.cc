#include <cstddef>

#include "codegen/bodies/code.h"
#include "codegen/device/bodies.h"

namespace mkc {
namespace {

llvm::Value* expert_sum_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::ExpertSumArgs;
  static_assert(mk::kExpertSumColumns == kExpertSumColumns);
  Fields f{e, call, e.local(sizeof(A))};
  const Tensor& x = f.tensor("x");
  f.set_operand(offsetof(A, x), "x");
  f.set_operand(offsetof(A, routing_weight), "routing_weight");
  f.set_operand(offsetof(A, row), "row");
  f.set_operand(offsetof(A, residual), "residual");
  f.set_operand(offsetof(A, out), "out", true);
  f.set_norm_outputs(offsetof(A, norm_outputs));
  f.set(offsetof(A, cols), f.extent(x, 1));
  f.set(offsetof(A, rows), e.value(x.shape[0]));
  f.set(offsetof(A, top_k), f.extent(f.tensor("routing_weight"), 1));
  return f.base;
}

void expert_sum_task(Emitter& e, const BodyCall& call, const TaskCall& t) {
  e.call("mkb_expert_sum", {call.worker, t.arguments, t.coords[0], t.coords[1]});
}

}  // namespace

const BodyCode kExpertSumCode = {.arguments = expert_sum_arguments, .task = expert_sum_task};

}  // namespace mkc
