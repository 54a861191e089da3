// Arguments of products, of their parts and of experts'. Internal to the files of bodies.
#pragma once

#include "codegen/bodies.h"

namespace mkc {

llvm::Value* product_arguments(Emitter& e, const BodyCall& call);  // whole, or a part
llvm::Value* split_k_reduce_arguments(Emitter& e, const BodyCall& call);
llvm::Value* expert_arguments(Emitter& e, const BodyCall& call);

// What the ends of their strips need, in shared memory.
void product_epilogue(Emitter& e, const BodyCall& call, llvm::Value* arguments);  // and of experts'
void split_k_reduce_epilogue(Emitter& e, const BodyCall& call, llvm::Value* arguments);

}  // namespace mkc
