#include <cstddef>

#include "codegen/bodies/code.h"
#include "codegen/device/bodies.h"

namespace mkc {
namespace {

llvm::Value* quantize_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::QuantizeArgs;
  Fields f{e, call, e.local(sizeof(A))};
  f.set_operand(offsetof(A, x), "x");
  f.set_operand(offsetof(A, sum_squares), "sum_squares");
  f.set_operand(offsetof(A, codes), "codes", true);
  f.set_operand(offsetof(A, code_scale), "code_scale", true);
  f.set(offsetof(A, cols), f.extent(f.tensor("x"), 1));
  const bool normed = find_operand(f.grid(), "sum_squares") != nullptr;
  f.set(offsetof(A, sumsq_partials), normed ? f.extent(f.tensor("sum_squares"), 1) : 0);
  f.set_float(offsetof(A, eps), float_attr(f.grid().attrs, "eps", 0));
  return f.base;
}

void quantize_task(Emitter& e, const BodyCall& call, const TaskCall& t) {
  e.call("mkb_quantize", {call.worker, t.arguments, t.coords[0]});
}

}  // namespace

const BodyCode kQuantizeCode = {.arguments = quantize_arguments, .task = quantize_task};

}  // namespace mkc
