// Each task body has one row here: the code that calls it. A further body is one more file of this folder and
// a line in table.cc. This header is internal to codegen/bodies.
#pragma once

#include <string>

#include "codegen/bodies/fields.h"

namespace mkc {

// TaskCall is one task of a body. Products and split_k_reduce run `count` consecutive tasks from `task` on.
struct TaskCall {
  llvm::Value* arguments;
  const std::vector<llvm::Value*>& coords;
  llvm::Value *task, *count;
};

// The functions are those of codegen/bodies.h. A null function emits nothing.
struct BodyCode {
  llvm::Value* (*arguments)(Emitter& e, const BodyCall& call);
  void (*task)(Emitter& e, const BodyCall& call, const TaskCall& task);
  void (*epilogue)(Emitter& e, const BodyCall& call, llvm::Value* arguments) = nullptr;
  void (*rows)(Emitter& e, const BodyCall& call, llvm::Value* arguments) = nullptr;
  void (*segment_start)(Emitter& e, const BodyCall& call, llvm::Value* arguments) = nullptr;
  void (*load)(Emitter& e, const BodyCall& call, const TaskCall& task) = nullptr;
};

extern const BodyCode kEmbedCode, kProductCode, kAppendCode, kAttendCode, kCombineCode, kSampleCode,
    kRouteCode, kExpertCode, kExpertSumCode, kSplitKPartialCode, kSplitKReduceCode, kRowCode, kQuantizeCode;

// Returns "NAME_DTYPE", the entry point for the dtype of one of the grid's operands.
std::string typed(std::string_view name, const BodyCall& call, std::string_view role, bool written = false);

}  // namespace mkc
