#include <cstddef>

#include "codegen/bodies/code.h"
#include "codegen/device/bodies.h"
#include "ir/bodies.h"

namespace mkc {
namespace {

llvm::Value* row_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::RowArgs;
  static_assert(mk::kRowCols == kRowColumns);
  Fields f{e, call, e.local(sizeof(A))};
  const TaskProgram& program = call.schedule.program;
  const Attrs& attrs = f.grid().attrs;
  f.set_operand(offsetof(A, x), "x");
  f.set_operand(offsetof(A, norm), "norm");
  f.set_operand(offsetof(A, norm_bias), "norm_bias");
  f.set_operand(offsetof(A, positions), "positions");
  f.set_operand(offsetof(A, rope), "rope");
  for (uint32_t i = 0; i < mk::kMaxRowSteps; ++i) {
    const std::string number = std::to_string(i);
    if (i < mk::kMaxRowOperands)
      f.set_operand(offsetof(A, operand) + i * sizeof(A::operand[0]), "operand" + number);
    f.set(offsetof(A, step) + i * sizeof(A::step[0]), int_attr(attrs, "step" + number, 0));
    f.set_float(offsetof(A, value) + i * sizeof(A::value[0]), float_attr(attrs, "value" + number, 0));
  }
  f.set_operand(offsetof(A, out), "out", true);
  f.set_norm_outputs(offsetof(A, norm_outputs));
  f.set_operand(offsetof(A, best_value), "best_value", true);
  f.set_operand(offsetof(A, best_index), "best_index", true);
  const bool gather_rows = int_attr(attrs, "gather_rows", 0) != 0;
  if (gather_rows) {
    const StepSymbols step = f.symbols();
    f.set_list(offsetof(A, first_row), step.first_row);
    f.set_list(offsetof(A, q_len), step.q_len);
  }
  f.set(offsetof(A, rows), e.value(f.tensor("out", true).shape[0]));
  f.set(offsetof(A, x_rows), e.value(f.tensor("x").shape[0]));
  f.set(offsetof(A, gather_rows), gather_rows);
  f.set(offsetof(A, cols), f.extent(f.tensor("x"), 1));
  f.set(offsetof(A, block_cols), row_columns(program, f.grid()));
  f.set(offsetof(A, norm_cols), norm_columns(program, f.grid()));
  f.set(offsetof(A, centered), int_attr(attrs, "centered", 0));
  f.set(offsetof(A, head_dim), int_attr(attrs, "head_dim", 0));
  f.set(offsetof(A, out_bf16), f.tensor("out", true).dtype == DType::bf16);
  f.set_float(offsetof(A, eps), float_attr(attrs, "eps", 0));
  return f.base;
}

void row_task(Emitter& e, const BodyCall& call, const TaskCall& t) {
  e.call("mkb_row", {call.worker, t.arguments, t.coords[0], t.coords[1]});
}

}  // namespace

const BodyCode kRowCode = {.arguments = row_arguments, .task = row_task};

}  // namespace mkc
