// Generated code calls task bodies with arguments that it makes from a grid's operands and sizes.
#pragma once

#include "codegen/emit.h"
#include "codegen/lists.h"
#include "codegen/targets.h"
#include "ir/schedule.h"

namespace mkc {

// Bases has the base addresses of the kernel's memory.
struct Bases {
  llvm::Value *weights, *workspace, *caches;  // global pointers
  llvm::Value *session, *step;
};

// BodyCall is one call of a task body. `grid` stands for all grids of its kind, and `record` tells which of
// them runs.
struct BodyCall {
  const Schedule& schedule;
  const StepLists& lists;
  const Engines& engines;
  GridId grid;
  llvm::Value* record;  // MkGrid
  const Bases& bases;
  llvm::Value* worker;
  llvm::Value* tokens;       // rows that a product or split_k_partial makes; else null
  llvm::Value* split_k;      // parts that the columns of such a grid are split into; else null
  llvm::Value* task_strips;  // strips of a task of experts; else null
};

// Tells whether the code serves split products. A number of parts that is a run-time value, or a constant
// other than 1, means that it does.
bool is_split(const BodyCall& call);

// Returns the global address of an operand. Requires that the grid has the operand, and that it is no cache.
llvm::Value* operand_address(Emitter& e, const BodyCall& call, std::string_view role, bool written = false);

// Fills the body's arguments, which hold for all tasks of a segment. Returns their address.
llvm::Value* emit_arguments(Emitter& e, const BodyCall& call);

// Consumers only: fills the epilogue's arguments of a grid that multiplies or adds K slices, and stores their
// address in `arguments`. Emits nothing for other grids.
void emit_epilogue(Emitter& e, const BodyCall& call, llvm::Value* arguments);

// Finds the rows of an expert grid's tasks, once after the segment's lookup. Emits nothing for other bodies.
void emit_rows(Emitter& e, const BodyCall& call, llvm::Value* arguments);
// Emits the code that runs once per segment, after its first wait and before its first task.
void emit_segment_start(Emitter& e, const BodyCall& call, llvm::Value* arguments);

// Loads the keys and values of one attend task through the ring.
void emit_load(Emitter& e, const BodyCall& call, llvm::Value* arguments,
               const std::vector<llvm::Value*>& coords);

// Runs one task. Products and split_k_reduce run `count` consecutive tasks from this one. The writes are
// visible to the worker's other threads after the next consumer barrier.
void emit_task(Emitter& e, const BodyCall& call, llvm::Value* arguments,
               const std::vector<llvm::Value*>& coords, llvm::Value* task, llvm::Value* count);

}  // namespace mkc
