// Arguments of product, split_k_partial, split_k_reduce and expert bodies. Internal to codegen/bodies*.
#pragma once

#include "codegen/bodies.h"

namespace mkc {

llvm::Value* product_arguments(Emitter& e, const BodyCall& call);  // product or split_k_partial
llvm::Value* split_k_reduce_arguments(Emitter& e, const BodyCall& call);
llvm::Value* expert_arguments(Emitter& e, const BodyCall& call);

// The two functions below fill the epilogue's arguments in shared memory. product_epilogue() also serves
// experts.
void product_epilogue(Emitter& e, const BodyCall& call, llvm::Value* arguments);
void split_k_reduce_epilogue(Emitter& e, const BodyCall& call, llvm::Value* arguments);

}  // namespace mkc
