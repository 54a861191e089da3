#include "codegen/bodies/fields.h"

#include <cstddef>

#include "codegen/device/bodies.h"
#include "codegen/operands.h"

namespace mkc {

llvm::Value* operand_word(Emitter& e, const BodyCall& call, std::string_view role, bool written) {
  const BodyKind body = call.schedule.program.grids[call.grid].body;
  return e.load32(call.record, offsetof(mkrt::MkGrid, operand) + 4 * operand_place(body, role, written));
}

namespace {

// Returns the address of an operand in the arena that begins at `base`.
llvm::Value* in_arena(Emitter& e, const BodyCall& call, llvm::Value* base, std::string_view role,
                      bool written) {
  return e.at(base, operand_word(e, call, role, written), mkrt::kOperandUnit);
}

}  // namespace

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
  set_by_record(offset, arena, role, written);
}

void Fields::set_by_record(size_t offset, llvm::Value* arena, std::string_view role, bool written) {
  llvm::Value* place = operand_word(e, call, role, written);
  set(offset, e.ir.CreateSelect(e.ir.CreateICmpEQ(place, e.constant(mkrt::kNoOperand)),
                                llvm::ConstantPointerNull::get(e.global_ptr),
                                e.at(arena, place, mkrt::kOperandUnit)));
}

void Fields::set_list(size_t offset, SymbolId list) {
  set(offset, e.call("mkd_list", e.shared_ptr, {call.worker, e.constant(call.lists.at(list))}));
}

void Fields::set_norm_outputs(size_t offset) {
  using N = mk::NormOutputs;
  set_optional(offset + offsetof(N, norm), call.bases.weights, "next_norm");
  set_optional(offset + offsetof(N, x_bf16), call.bases.workspace, "x_bf16", true);
  set_optional(offset + offsetof(N, sum_squares), call.bases.workspace, "sum_squares", true);
}

llvm::Value* operand_address(Emitter& e, const BodyCall& call, std::string_view role, bool written) {
  const Table<TensorId, Tensor>& tensors = call.schedule.program.tensors;
  const TensorId tensor = find_operand(call.schedule.program.grids[call.grid], role, written)->tensor;
  switch (tensors[tensor].kind) {
    case TensorKind::kInput: {
      const size_t input = number_in_kind(tensors, tensor);
      return e.load_ptr(call.bases.step, offsetof(mkrt::MkStep, input) + 8 * input);
    }
    case TensorKind::kWeight:
    case TensorKind::kTable:
      return in_arena(e, call, call.bases.weights, role, written);
    case TensorKind::kActivation:
    case TensorKind::kOutput:
      return in_arena(e, call, call.bases.workspace, role, written);
    case TensorKind::kCache:
      break;
  }
  MKC_BUG("a cache has no address, or a tensor no known kind");
}

}  // namespace mkc
