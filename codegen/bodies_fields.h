// Filling an argument struct of the bodies. Internal to the files of bodies.
#pragma once

#include <string_view>

#include "codegen/bodies.h"

namespace mkc {

// Of an operand, what the record says.
llvm::Value* operand_word(Emitter& e, const BodyCall& call, std::string_view role, bool written);
// Where an operand lies in its arena.
llvm::Value* in_arena(Emitter& e, const BodyCall& call, llvm::Value* base, std::string_view role,
                      bool written);

// Writes fields at their C++ offsets.
struct Fields {
  Emitter& e;
  const BodyCall& call;
  llvm::Value* base;

  const TaskGrid& grid() const { return call.schedule.program.grids[call.grid]; }
  const Tensor& tensor(std::string_view role, bool written = false) const;
  int64_t extent(const Tensor& t, size_t dim) const { return t.shape[dim].constant(); }

  void set(size_t offset, llvm::Value* value);
  void set(size_t offset, int64_t value);
  void set_float(size_t offset, double value);
  // The operand's address; null where the grid has no such operand.
  void set_operand(size_t offset, std::string_view role, bool written = false);
  // The same of an operand that not all products that share the code have.
  void set_optional(size_t offset, llvm::Value* arena, std::string_view role, bool written = false);
  // Where a list of the step lies in the worker's shared memory.
  void set_list(size_t offset, std::string_view name);
  // mk::NormOutputs: what the next norm's products take.
  void set_norm_outputs(size_t offset);
};

}  // namespace mkc
