// The bodies product, split_k_partial, split_k_reduce and expert share this code. This header is internal to
// codegen/bodies.
#pragma once

#include <functional>

#include "codegen/bodies/code.h"

namespace mkc {

// Returns a mask of the program's gates. Bit g is set if a grid has Activation g.
int64_t gates_of(const TaskProgram& program);
// Fills the arguments of a product or of an expert's product, but for x and its most rows. Sizes come from
// the record, so that products can share their code.
void fill_product(Fields& f, llvm::Value* tokens);
// Emits the code that runs once per segment: finds gathered rows, and prepares norms.
void product_start(Emitter& e, const BodyCall& call, llvm::Value* arguments);
// Fills the epilogue's arguments in shared memory. product_epilogue() also serves experts.
void product_epilogue(Emitter& e, const BodyCall& call, llvm::Value* arguments);

// Sets the epilogue operands that product and split_k_reduce have in common.
void set_epilogue_operands(Fields& f);
// Fills the epilogue's arguments on the first lane of each warp. `depth` is 0 for tasks of a segment, 1 for
// inline tasks that run after them.
void fill_epilogue(Emitter& e, const BodyCall& call, llvm::Value* arguments, int64_t depth,
                   const std::function<void(Fields&)>& fill);

}  // namespace mkc
