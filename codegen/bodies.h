// Calls of task bodies: arguments from a grid's operands and sizes.
#pragma once

#include "codegen/emit.h"
#include "codegen/lists.h"
#include "codegen/targets.h"
#include "ir/schedule.h"

namespace mkc {

// Where the kernel's memory lies, loaded once a launch.
struct Bases {
  llvm::Value *weights, *workspace, *caches;  // global pointers
  llvm::Value *session, *step;
};

// A task body being called: the grid that stands for its kind, and the record that says which one runs.
struct BodyCall {
  const Schedule& schedule;
  const StepLists& lists;
  const Engines& engines;
  GridId grid;
  llvm::Value* record;  // MkGrid
  const Bases& bases;
  llvm::Value* worker;
  llvm::Value* tokens;   // of a product or its part: the rows that it makes; else null
  llvm::Value* split_k;  // of the same: those that its columns are split into
};

// Whether it is of code that serves products that are split.
bool is_split(const BodyCall& call);

// Global address of an operand, which the grid has.
llvm::Value* operand_address(Emitter& e, const BodyCall& call, std::string_view role, bool written = false);

// Fills the body's arguments; they hold for all tasks of a segment. Returns their address.
llvm::Value* emit_arguments(Emitter& e, const BodyCall& call);

// Consumers: of products, fills what the ends of their strips need, and notes in the arguments where.
void emit_epilogue(Emitter& e, const BodyCall& call, llvm::Value* arguments);

// Which rows the tasks of a segment have, once after its lookup.
void emit_rows(Emitter& e, const BodyCall& call, llvm::Value* arguments);
// What runs once, before a segment's first task and after its first wait.
void emit_segment_start(Emitter& e, const BodyCall& call, llvm::Value* arguments);

// What the loader brings for one task of attention.
void emit_load(Emitter& e, const BodyCall& call, llvm::Value* arguments,
               const std::vector<llvm::Value*>& coords);

// One task; of a product `count` of them, from this one on. Its writes are complete for the worker's
// other threads after the next consumer barrier.
void emit_task(Emitter& e, const BodyCall& call, llvm::Value* arguments,
               const std::vector<llvm::Value*>& coords, llvm::Value* task, llvm::Value* count);

}  // namespace mkc
