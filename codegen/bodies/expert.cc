#include <cstddef>

#include "codegen/bodies/products.h"
#include "codegen/device/bodies.h"
#include "ir/tasks.h"

namespace mkc {
namespace {

using Args = mk::ProductArgs;

// Returns the address of the rows that are multiplied. The first product of an expert reads tokens' rows as
// x, and the second one rows of the first.
llvm::Value* multiplied_address(Fields& f) {
  llvm::Value *x = operand_word(f.e, f.call, "x", false), *rows = operand_word(f.e, f.call, "rows", false);
  llvm::Value* none = f.e.ir.CreateICmpEQ(x, f.e.constant(mkrt::kNoOperand));
  return f.e.at(f.call.bases.workspace, f.e.ir.CreateSelect(none, rows, x), mkrt::kOperandUnit);
}

llvm::Value* expert_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::ExpertArgs;
  static_assert(offsetof(A, product) == 0);
  Fields f{e, call, e.local(sizeof(A))};
  const Expr& rows = f.tensor("out", true).shape[0];
  const Expr tokens_of = floor_div(rows, int_attr(f.grid().attrs, "top_k", 1));
  llvm::Value* tokens = e.value(tokens_of);
  fill_product(f, tokens);
  f.set(offsetof(Args, x), multiplied_address(f));
  f.set(offsetof(Args, max_tokens), bounds(tokens_of, symbol_bounds(call.schedule.program.symbols)).hi);
  f.set(offsetof(Args, x_rows), tokens);
  f.set_operand(offsetof(A, expert), "expert");
  f.set_operand(offsetof(A, active_expert_rows), "active_expert_rows");
  f.set_operand(offsetof(A, active_expert_begin), "active_expert_begin");
  f.set_by_record(offsetof(A, token), call.bases.workspace, "token");
  f.set(offsetof(A, rows), e.value(rows));
  f.set(offsetof(A, strips), call.task_strips);
  llvm::Value* token = operand_word(e, call, "token", false);
  f.set(offsetof(A, gather_rows),
        e.ir.CreateZExt(e.ir.CreateICmpNE(token, e.constant(mkrt::kNoOperand)), e.ir.getInt32Ty()));
  return f.base;
}

void expert_task(Emitter& e, const BodyCall& call, const TaskCall& t) {
  e.call(typed("mkb_expert", call, "weight").c_str(), {call.worker, t.arguments, t.coords[0], t.coords[1]});
}

// Finds the rows of the tasks of the active experts.
void expert_rows(Emitter& e, const BodyCall& call, llvm::Value* arguments) {
  const TaskGrid& grid = call.schedule.program.grids[call.grid];
  e.call("mkb_expert_rows", {call.worker, arguments, e.value(grid.coords[1].extent)});
}

}  // namespace

const BodyCode kExpertCode = {.arguments = expert_arguments,
                              .task = expert_task,
                              .epilogue = product_epilogue,
                              .rows = expert_rows,
                              .segment_start = product_start};

}  // namespace mkc
