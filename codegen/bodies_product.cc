#include "codegen/bodies_product.h"

#include <cstddef>

#include "codegen/bodies_fields.h"
#include "codegen/device/bodies.h"
#include "codegen/operands.h"

namespace mkc {
namespace {

// Of a product, or of the product of an expert. Sizes are the record's, so that products share their code.
void fill_product(Fields& f, llvm::Value* tokens) {
  using A = mk::ProductArgs;
  using P = mkrt::MkProduct;
  const Bases& bases = f.call.bases;
  const auto cols = static_cast<uint32_t>(f.tensor("weight").shape.back().constant());
  const std::string& x = multiplied_rows(f.grid())->role;
  f.set_operand(offsetof(A, x), x);
  f.set_operand(offsetof(A, norm), "norm");
  f.set_optional(offsetof(A, squares), bases.workspace, "squares");
  f.set_operand(offsetof(A, out), "out", true);
  f.set_operand(offsetof(A, sums), "sums", true);
  f.set_next(offsetof(A, next));
  f.set_optional(offsetof(A, bias), bases.weights, "bias");
  f.set_optional(offsetof(A, residual), bases.workspace, "residual");
  f.set_optional(offsetof(A, best_value), bases.workspace, "best_value", true);
  f.set_optional(offsetof(A, best_index), bases.workspace, "best_index", true);
  for (auto [to, from] : {std::pair{offsetof(A, rows), offsetof(P, rows)},
                          {offsetof(A, cols), offsetof(P, cols)},
                          {offsetof(A, out_cols), offsetof(P, out_cols)},
                          {offsetof(A, strips), offsetof(P, strips)},
                          {offsetof(A, tiles), offsetof(P, tiles)},
                          {offsetof(A, tail_cols), offsetof(P, tail_cols)},
                          {offsetof(A, silu_mul), offsetof(P, silu_mul)},
                          {offsetof(A, eps), offsetof(P, eps)},
                          {offsetof(A, parts), offsetof(P, parts)},
                          {offsetof(A, out_rounded), offsetof(P, out_rounded)},
                          {offsetof(A, picks), offsetof(P, picks)}})
    f.set(to, f.e.load32(f.call.record, offsetof(mkrt::MkGrid, product) + from));
  f.set(offsetof(A, tokens), tokens);
  f.set(offsetof(A, column_parts), column_parts(f.grid()));
  f.set(offsetof(A, normed), find_operand(f.grid(), "norm") != nullptr);
  f.set(offsetof(A, rounded), f.tensor(x).dtype == DType::bf16);
  f.set(offsetof(A, padding), static_cast<int64_t>(mk::padding_of(cols)));
  f.set(offsetof(A, wide_from), wide_from(f.call.schedule, f.call.grid, f.call.engines));
}

}  // namespace

llvm::Value* product_arguments(Emitter& e, const BodyCall& call) {
  Fields f{e, call, e.local(sizeof(mk::ProductArgs))};
  fill_product(f, call.tokens);
  f.set(offsetof(mk::ProductArgs, x_rows), e.value(f.tensor("x").shape[0]));
  if (may_pick(call.schedule.program)) {
    f.set_list(offsetof(mk::ProductArgs, q_len), "q_len");
    f.set_list(offsetof(mk::ProductArgs, first_row), "first_row");
  }
  return f.base;
}

llvm::Value* expert_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::ExpertArgs;
  static_assert(offsetof(A, product) == 0);
  Fields f{e, call, e.local(sizeof(A))};
  const Expr& rows = f.tensor("out", true).shape[0];
  llvm::Value* tokens = e.value(floor_div(rows, int_attr(f.grid().attrs, "top_k", 1)));
  fill_product(f, tokens);
  f.set(offsetof(mk::ProductArgs, x_rows), tokens);
  f.set_operand(offsetof(A, expert), "expert");
  f.set_operand(offsetof(A, slot_rows), "slot_rows");
  f.set_operand(offsetof(A, slot_begin), "slot_begin");
  f.set_operand(offsetof(A, token), "token");
  f.set(offsetof(A, rows), e.value(rows));
  f.set(offsetof(A, strips), task_strips(f.grid()));
  f.set(offsetof(A, picks), find_operand(f.grid(), "token") != nullptr);
  return f.base;
}

// Sizes are constants: it shares its code with no other kind.
llvm::Value* finish_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::ProductArgs;
  Fields f{e, call, e.local(sizeof(A))};
  const Tensor &sums = f.tensor("sums"), &out = f.tensor("out", true);
  const bool scaled = find_operand(f.grid(), "squares");
  f.set_operand(offsetof(A, sums), "sums");
  f.set_operand(offsetof(A, squares), "squares");
  f.set_operand(offsetof(A, bias), "bias");
  f.set_operand(offsetof(A, residual), "residual");
  f.set_operand(offsetof(A, out), "out", true);
  f.set_next(offsetof(A, next));
  f.set(offsetof(A, rows), f.extent(out, 1));
  f.set(offsetof(A, out_cols), f.extent(out, 1));
  f.set(offsetof(A, strips), f.extent(sums, 0));
  f.set(offsetof(A, cols), int_attr(f.grid().attrs, "columns", 0));
  f.set(offsetof(A, tokens), e.value(sums.shape[2]));
  f.set(offsetof(A, silu_mul), int_attr(f.grid().attrs, "silu_mul", 0));
  f.set(offsetof(A, parts), scaled ? f.extent(f.tensor("squares"), 1) : 0);
  f.set(offsetof(A, out_rounded), out.dtype == DType::bf16);
  f.set(offsetof(A, picks), int64_t{0});
  f.set(offsetof(A, rounded), int64_t{1});
  f.set_float(offsetof(A, eps), float_attr(f.grid().attrs, "eps", 0));
  return f.base;
}

}  // namespace mkc
