#include <cstddef>

#include "codegen/bodies/products.h"
#include "codegen/device/bodies.h"
#include "codegen/operands.h"

namespace mkc {
namespace {

using Args = mk::ProductArgs;

llvm::Value* product_arguments(Emitter& e, const BodyCall& call) {
  Fields f{e, call, e.local(sizeof(Args))};
  fill_product(f, call.tokens);
  f.set_operand(offsetof(Args, x), multiplied_rows(f.grid())->role);
  f.set(offsetof(Args, max_tokens), max_multiplied_rows(call.schedule.program, f.grid()));
  f.set(offsetof(Args, x_rows), e.value(f.tensor("x").shape[0]));
  if (may_gather_rows(call.schedule.program)) {
    const StepSymbols step = f.symbols();
    f.set_list(offsetof(Args, q_len), step.q_len);
    f.set_list(offsetof(Args, first_row), step.first_row);
  }
  return f.base;
}

void product_task(Emitter& e, const BodyCall& call, const TaskCall& t) {
  e.call(typed("mkb_product", call, "weight").c_str(), {call.worker, t.arguments, t.task, t.count});
}

}  // namespace

constexpr BodyCode kProductCode = {.arguments = product_arguments,
                                   .task = product_task,
                                   .epilogue = product_epilogue,
                                   .segment_start = product_start};
// Parts of a split product are multiplied by the code of products.
constexpr BodyCode kSplitKPartialCode = kProductCode;

}  // namespace mkc
