#include <cstddef>

#include "codegen/bodies/products.h"
#include "codegen/device/bodies.h"
#include "codegen/operands.h"

namespace mkc {
namespace {

using Args = mk::ProductArgs;
using Epilogue = mk::EpilogueArgs;

// Fills the arguments of split_k_reduce. Sizes are constants, because its code is shared with no other kind.
llvm::Value* split_k_reduce_arguments(Emitter& e, const BodyCall& call) {
  Fields f{e, call, e.local(sizeof(Args))};
  const Tensor& sums = f.tensor("sums");
  f.set(offsetof(Args, cols), int_attr(f.grid().attrs, "columns", 0));
  f.set(offsetof(Args, tokens), e.value(sums.shape[2]));
  f.set(offsetof(Args, first_out), int64_t{0});
  f.set(offsetof(Args, first_bias), int64_t{0});
  f.set(offsetof(Args, gates), gates_of(f.call.schedule.program));
  f.set(offsetof(Args, left_out), left_out(f.call.schedule.program, f.grid()));
  f.set(offsetof(Args, x_bf16), int64_t{1});
  f.set(offsetof(Args, gather_expert_rows), int64_t{0});
  f.set(offsetof(Args, biased_experts), int64_t{0});
  f.set(offsetof(Args, has_codes), int64_t{0});
  return f.base;
}

void split_k_epilogue(Emitter& e, const BodyCall& call, llvm::Value* arguments) {
  fill_epilogue(e, call, arguments, 1, [&](Fields& f) {
    const Tensor& out = f.tensor("out", true);
    set_epilogue_operands(f);
    f.set_operand(offsetof(Epilogue, out), "out", true);
    f.set_operand(offsetof(Epilogue, sums), "sums");
    f.set(offsetof(Epilogue, rows), f.extent(out, 1));
    f.set(offsetof(Epilogue, all_strips), f.extent(f.tensor("sums"), 0));
    f.set(offsetof(Epilogue, out_cols), f.extent(out, 1));
    f.set(offsetof(Epilogue, gate), int_attr(f.grid().attrs, "gate", 0));
    f.set(offsetof(Epilogue, sumsq_partials),
          find_operand(f.grid(), "sum_squares") ? f.extent(f.tensor("sum_squares"), 1) : 0);
    f.set(offsetof(Epilogue, out_bf16), out.dtype == DType::bf16);
    f.set(offsetof(Epilogue, gather_rows), int64_t{0});
    f.set_float(offsetof(Epilogue, eps), float_attr(f.grid().attrs, "eps", 0));
  });
}

void split_k_reduce_task(Emitter& e, const BodyCall& call, const TaskCall& t) {
  e.call("mkb_split_k_reduce", {call.worker, t.arguments, t.coords[0], t.count});
}

}  // namespace

const BodyCode kSplitKReduceCode = {
    .arguments = split_k_reduce_arguments, .task = split_k_reduce_task, .epilogue = split_k_epilogue};

}  // namespace mkc
