#include "codegen/bodies/products.h"

#include <cstddef>

#include "codegen/device/bodies.h"
#include "codegen/operands.h"
#include "ir/values.h"

namespace mkc {
namespace {

using Args = mk::ProductArgs;
using Epilogue = mk::EpilogueArgs;

llvm::Value* of_record(Fields& f, size_t field) {
  return f.e.load32(f.call.record, offsetof(mkrt::MkGrid, product) + field);
}

}  // namespace

int64_t gates_of(const TaskProgram& program) {
  int64_t gates = 0;
  for (const TaskGrid& grid : program.grids) gates |= int64_t{1} << int_attr(grid.attrs, "gate", 0);
  return gates;
}

// Fills the arguments of a product or of an expert's product, but for x and its most rows. Sizes come from
// the record, so that products can share their code.
void fill_product(Fields& f, llvm::Value* tokens) {
  using P = mkrt::MkProduct;
  f.set_operand(offsetof(Args, norm), "norm");
  f.set_operand(offsetof(Args, codes), "codes");
  f.set_operand(offsetof(Args, code_scale), "code_scale");
  for (auto [to, from] : {std::pair{offsetof(Args, cols), offsetof(P, cols)},
                          {offsetof(Args, strips), offsetof(P, strips)},
                          {offsetof(Args, tiles), offsetof(P, tiles)},
                          {offsetof(Args, tail_cols), offsetof(P, tail_cols)}})
    f.set(to, of_record(f, from));
  f.set(offsetof(Args, tokens), tokens);
  f.set(offsetof(Args, first_out), int64_t{0});
  f.set(offsetof(Args, first_bias), int64_t{0});
  f.set(offsetof(Args, streamed_split_k), f.call.split_k ? f.call.split_k : f.e.constant(1));
  f.set(offsetof(Args, splits), is_split(f.call));
  f.set(offsetof(Args, gates), gates_of(f.call.schedule.program));
  f.set(offsetof(Args, left_out), left_out(f.call.schedule.program, f.grid()));
  f.set(offsetof(Args, normed), find_operand(f.grid(), "norm") != nullptr);
  f.set(offsetof(Args, x_bf16), f.tensor(multiplied_rows(f.grid())->role).dtype == DType::bf16);
  f.set(offsetof(Args, gather_expert_rows), int64_t{0});
  const bool biased = f.grid().body == BodyKind::kExpert && find_operand(f.grid(), "bias");
  f.set(offsetof(Args, biased_experts), biased ? f.extent(f.tensor("bias"), 0) : 0);
  const TaskProgram& program = f.call.schedule.program;
  f.set(offsetof(Args, padding),
        static_cast<int64_t>(code_padding(program, f.grid(), types_with_padded_chunks(program))));
  f.set(offsetof(Args, mma64_strips), mkrt::mma64_strips(f.call.engines.warpgroups));
  f.set(offsetof(Args, wgmma_from), reached_wgmma_from(f.call.schedule, f.call.grid, f.call.engines));
  f.set(offsetof(Args, fp8_from), reached_fp8_from(f.call.schedule, f.call.grid));
  f.set(offsetof(Args, has_codes), reads_codes(f.grid()));
}

// Sets the epilogue operands that product and split_k_reduce have in common.
void set_epilogue_operands(Fields& f) {
  const Bases& bases = f.call.bases;
  f.set_optional(offsetof(Epilogue, bias), bases.weights, "bias");
  f.set_optional(offsetof(Epilogue, residual), bases.workspace, "residual");
  // Products of experts share code, and some of them lack these two operands.
  const bool expert = f.grid().body == BodyKind::kExpert;
  if (expert && find_operand(f.grid(), "bias"))
    f.set_by_record(offsetof(Epilogue, up_bias), bases.weights, "up_bias");
  if (expert)
    f.set_by_record(offsetof(Epilogue, sum_squares), bases.workspace, "sum_squares");
  else
    f.set_optional(offsetof(Epilogue, sum_squares), bases.workspace, "sum_squares");
  f.set_norm_outputs(offsetof(Epilogue, norm_outputs));
}

// Fills the epilogue's arguments on the first lane of each warp. `depth` is 0 for tasks of a segment, 1 for
// inline tasks that run after them.
void fill_epilogue(Emitter& e, const BodyCall& call, llvm::Value* arguments, int64_t depth,
                   const std::function<void(Fields&)>& fill) {
  Fields f{e, call, e.call("mkd_epilogue_args", e.shared_ptr, {call.worker, e.constant(depth)})};
  e.ir.CreateStore(f.base, e.at(arguments, offsetof(Args, epilogue)));
  llvm::Value* thread = e.load32(call.worker, offsetof(mk::Worker, thread));
  llvm::Value* lane = e.ir.CreateURem(thread, e.constant(mk::kWarpLanes));
  e.if_then(e.ir.CreateICmpEQ(lane, e.constant(0)), [&] { fill(f); });
  if (call.engines.loader) e.call("mk_warp_sync", {});
}

bool is_split(const BodyCall& call) {
  const auto* parts = llvm::dyn_cast_or_null<llvm::ConstantInt>(call.split_k);
  return call.split_k && !(parts && parts->isOne());
}

void product_epilogue(Emitter& e, const BodyCall& call, llvm::Value* arguments) {
  using P = mkrt::MkProduct;
  const Bases& bases = call.bases;
  fill_epilogue(e, call, arguments, 0, [&](Fields& f) {
    set_epilogue_operands(f);
    const char* made = f.grid().body == BodyKind::kSplitKPartial ? "sums" : "out";  // share one record entry
    f.set_operand(offsetof(Epilogue, out), made, true);
    f.set_operand(offsetof(Epilogue, sums), made, true);
    if (is_split(call)) f.set(offsetof(Epilogue, split_k), call.split_k);
    f.set_optional(offsetof(Epilogue, best_value), bases.workspace, "best_value", true);
    f.set_optional(offsetof(Epilogue, best_index), bases.workspace, "best_index", true);
    for (auto [to, from] : {std::pair{offsetof(Epilogue, rows), offsetof(P, rows)},
                            {offsetof(Epilogue, out_cols), offsetof(P, out_cols)},
                            {offsetof(Epilogue, all_strips), offsetof(P, strips)},
                            {offsetof(Epilogue, gather_rows), offsetof(P, gather_rows)},
                            {offsetof(Epilogue, gate), offsetof(P, gate)},
                            {offsetof(Epilogue, sumsq_partials), offsetof(P, sumsq_partials)},
                            {offsetof(Epilogue, out_bf16), offsetof(P, out_bf16)},
                            {offsetof(Epilogue, eps), offsetof(P, eps)}})
      f.set(to, of_record(f, from));
  });
}

void product_start(Emitter& e, const BodyCall& call, llvm::Value* arguments) {
  const TaskGrid& grid = call.schedule.program.grids[call.grid];
  if (!call.engines.loader) {  // experts prepare their rows task by task
    if (multiplies_in_blocks(grid))
      e.call(typed("mkb_product_start", call, "weight").c_str(), {call.worker, arguments});
    return;
  }
  if (multiplies_in_blocks(grid) && may_gather_rows(call.schedule.program))
    e.call("mkb_product_rows", {call.worker, arguments});
  if (find_operand(grid, "norm")) e.call("mkb_product_norm", {call.worker, arguments});
  llvm::Value *rows = e.load32(arguments, offsetof(mk::ProductArgs, x_rows)),
              *parts = e.load32(call.record,
                                offsetof(mkrt::MkGrid, product) + offsetof(mkrt::MkProduct, sumsq_partials));
  e.if_then(e.ir.CreateICmpUGT(rows, e.constant(mkrt::kMma8Tokens)), [&] {
    e.if_then(reads_codes(grid) ? e.ir.getTrue() : e.ir.CreateICmpUGT(parts, e.constant(0)),
              [&] { e.call("mkb_product_squares", {call.worker, arguments}); });
  });
}

}  // namespace mkc
