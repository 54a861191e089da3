#include "codegen/bodies_fields.h"

#include <cstddef>

#include "codegen/device/bodies.h"
#include "codegen/operands.h"

namespace mkc {

llvm::Value* operand_word(Emitter& e, const BodyCall& call, std::string_view role, bool written) {
  const BodyKind body = call.schedule.program.grids[call.grid].body;
  return e.load32(call.record, offsetof(mkrt::MkGrid, operand) + 4 * operand_place(body, role, written));
}

llvm::Value* in_arena(Emitter& e, const BodyCall& call, llvm::Value* base, std::string_view role,
                      bool written) {
  return e.at(base, operand_word(e, call, role, written), mkrt::kOperandUnit);
}

const Tensor& Fields::tensor(std::string_view role, bool written) const {
  return operand_tensor(call.schedule.program, grid(), role, written);
}

void Fields::set(size_t offset, llvm::Value* value) {
  e.ir.CreateStore(value, e.at(base, offset));
}
void Fields::set(size_t offset, int64_t value) {
  set(offset, e.constant(value));
}
void Fields::set_float(size_t offset, double value) {
  set(offset, llvm::ConstantFP::get(e.ir.getFloatTy(), static_cast<float>(value)));
}

void Fields::set_operand(size_t offset, std::string_view role, bool written) {
  set(offset, find_operand(grid(), role, written) ? operand_address(e, call, role, written)
                                                  : llvm::ConstantPointerNull::get(e.global_ptr));
}

void Fields::set_optional(size_t offset, llvm::Value* arena, std::string_view role, bool written) {
  if (!multiplies_in_blocks(grid())) return set_operand(offset, role, written);
  llvm::Value* place = operand_word(e, call, role, written);
  set(offset, e.ir.CreateSelect(e.ir.CreateICmpEQ(place, e.constant(mkrt::kNoOperand)),
                                llvm::ConstantPointerNull::get(e.global_ptr),
                                e.at(arena, place, mkrt::kOperandUnit)));
}

void Fields::set_list(size_t offset, std::string_view name) {
  const SymbolId list = find_symbol(call.schedule.program.symbols, name);
  set(offset, e.call("mkd_list", e.shared_ptr, {call.worker, e.constant(call.lists.at(list))}));
}

void Fields::set_norm_outputs(size_t offset) {
  using N = mk::NormOutputs;
  set_optional(offset + offsetof(N, norm), call.bases.weights, "next_norm");
  set_optional(offset + offsetof(N, x_bf16), call.bases.workspace, "x_bf16", true);
  set_optional(offset + offsetof(N, sum_squares), call.bases.workspace, "sum_squares", true);
}

}  // namespace mkc
