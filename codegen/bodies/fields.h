// Generated code fills the argument struct of a task body field by field. This header is internal to
// codegen/bodies.
#pragma once

#include <string_view>

#include "codegen/bodies.h"

namespace mkc {

// Returns the record's entry for an operand (MkGrid::operand).
llvm::Value* operand_word(Emitter& e, const BodyCall& call, std::string_view role, bool written);

// Fields writes members of an argument struct at their C++ offsets.
struct Fields {
  Emitter& e;
  const BodyCall& call;
  llvm::Value* base;

  const TaskGrid& grid() const { return call.schedule.program.grids[call.grid]; }
  StepSymbols symbols() const { return step_symbols(call.schedule.program.symbols); }
  const Tensor& tensor(std::string_view role, bool written = false) const;
  int64_t extent(const Tensor& t, size_t dim) const { return t.shape[dim].constant(); }

  void set(size_t offset, llvm::Value* value);
  void set(size_t offset, int64_t value);
  void set_float(size_t offset, double value);
  // Writes the operand's address, or null where the grid has no such operand.
  void set_operand(size_t offset, std::string_view role, bool written = false);
  // Writes the address of an operand that some grids of shared code lack, or null. The record tells at run
  // time whether the grid has it.
  void set_by_record(size_t offset, llvm::Value* arena, std::string_view role, bool written = false);
  // Does so for products, and is set_operand() for other bodies.
  void set_optional(size_t offset, llvm::Value* arena, std::string_view role, bool written = false);
  // Writes the address of a list of the step in the worker's shared memory.
  void set_list(size_t offset, SymbolId list);
  // Writes an mk::NormOutputs: the operands that the products behind the next norm read.
  void set_norm_outputs(size_t offset);
};

}  // namespace mkc
