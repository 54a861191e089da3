// Code that calls the entry points of a grid's task body.
#include <fmt/format.h>

#include <cstddef>

#include "codegen/bodies.h"
#include "codegen/bodies_product.h"
#include "codegen/device/bodies.h"
#include "codegen/operands.h"
#include "ir/values.h"

namespace mkc {
namespace {

const TaskGrid& grid_of(const BodyCall& call) {
  return call.schedule.program.grids[call.grid];
}

// Returns "NAME_DTYPE", the entry point for the dtype of one of the grid's operands.
std::string typed(std::string_view name, const BodyCall& call, std::string_view role, bool written = false) {
  const DType dtype = operand_tensor(call.schedule.program, grid_of(call), role, written).dtype;
  return fmt::format("{}_{}", name, dtype_name(dtype));
}
std::string typed_body(const BodyCall& call, std::string_view role, bool written = false) {
  return typed(fmt::format("mkb_{}", body_name(grid_of(call).body)), call, role, written);
}

// Calls the attend body once per KV tile and block of query rows. A block is the rows that one call takes
// together. Arguments are loaded again for each call, because they would fill registers.
void emit_attend(Emitter& e, const BodyCall& call, const std::vector<llvm::Value*>& coords) {
  const TaskGrid& grid = grid_of(call);
  const TaskProgram& program = call.schedule.program;
  const bool f32 = operand_tensor(program, grid, "k_cache").dtype == DType::f32;
  const int64_t group = int_attr(grid.attrs, "heads", 0) / int_attr(grid.attrs, "kv_heads", 1);
  const Expr rows = group * element(find_symbol(program.symbols, "block_rows"), coord(1));
  const Expr blocks = ceil_div(rows, f32 ? mk::kBlockRowsF32 : mk::kBlockRows),
             kv_tiles = floor_div(partial_positions_of(program, grid), kKvTilePositions);
  const auto each_block = [&](llvm::Value* kv_tile) {
    e.loop(e.constant(0), e.value(blocks, coords), [&](llvm::Value* block) {
      e.call(typed_body(call, "k_cache").c_str(),
             {call.worker, emit_arguments(e, call), coords[0], coords[1], coords[2], kv_tile, block});
    });
  };
  if (kv_tiles.is_const()) return each_block(e.constant(0));  // exactly one KV tile
  e.loop(e.constant(0), e.value(kv_tiles), each_block);
}

}  // namespace

void emit_epilogue(Emitter& e, const BodyCall& call, llvm::Value* arguments) {
  const TaskGrid& grid = grid_of(call);
  if (grid.body == BodyKind::kSplitKReduce) return split_k_reduce_epilogue(e, call, arguments);
  if (multiplies(grid)) product_epilogue(e, call, arguments);
}

void emit_rows(Emitter& e, const BodyCall& call, llvm::Value* arguments) {
  const TaskGrid& grid = grid_of(call);
  if (grid.body == BodyKind::kExpert)
    e.call("mkb_expert_rows", {call.worker, arguments, e.value(grid.coords[1].extent)});
}

void emit_segment_start(Emitter& e, const BodyCall& call, llvm::Value* arguments) {
  const TaskGrid& grid = grid_of(call);
  if (!multiplies(grid)) return;
  if (multiplies_in_blocks(grid) && may_gather_rows(call.schedule.program))
    e.call("mkb_product_rows", {call.worker, arguments});
  if (find_operand(grid, "norm")) e.call("mkb_product_norm", {call.worker, arguments});
  llvm::Value *rows = e.load32(arguments, offsetof(mk::ProductArgs, x_rows)),
              *parts = e.load32(call.record,
                                offsetof(mkrt::MkGrid, product) + offsetof(mkrt::MkProduct, sumsq_partials));
  e.if_then(e.ir.CreateICmpUGT(rows, e.constant(mkrt::kMma8Tokens)), [&] {
    e.if_then(e.ir.CreateICmpUGT(parts, e.constant(0)),
              [&] { e.call("mkb_product_squares", {call.worker, arguments}); });
  });
}

void emit_load(Emitter& e, const BodyCall& call, llvm::Value* arguments,
               const std::vector<llvm::Value*>& coords) {
  e.call(typed("mkd_stream_cache", call, "k_cache").c_str(),
         {call.worker, arguments, coords[0], coords[1], coords[2]});
}

void emit_task(Emitter& e, const BodyCall& call, llvm::Value* arguments,
               const std::vector<llvm::Value*>& coords, llvm::Value* task, llvm::Value* count) {
  switch (grid_of(call).body) {
    case BodyKind::kEmbed:
      return e.call(typed_body(call, "table").c_str(), {call.worker, arguments, coords[0]});
    case BodyKind::kProduct:
    case BodyKind::kSplitKPartial:
      return e.call(typed("mkb_product", call, "weight").c_str(), {call.worker, arguments, task, count});
    case BodyKind::kSplitKReduce:
      return e.call("mkb_split_k_reduce", {call.worker, arguments, coords[0], count});
    case BodyKind::kAppend:
      return e.call(typed_body(call, "k_cache", true).c_str(),
                    {call.worker, arguments, coords[0], coords[1]});
    case BodyKind::kAttend:
      return emit_attend(e, call, coords);
    case BodyKind::kCombine:
      return e.call("mkb_combine", {call.worker, arguments, coords[0], coords[1]});
    case BodyKind::kSample:
      return e.call("mkb_sample", {call.worker, arguments, coords[0]});
    case BodyKind::kRoute:
      return e.call("mkb_route", {call.worker, arguments});
    case BodyKind::kExpert:
      return e.call(typed_body(call, "weight").c_str(), {call.worker, arguments, coords[0], coords[1]});
    case BodyKind::kExpertSum:
      return e.call("mkb_expert_sum", {call.worker, arguments, coords[0], coords[1]});
    case BodyKind::kRow:
      return e.call("mkb_row", {call.worker, arguments, coords[0], coords[1]});
  }
  MKC_BUG("unknown body");
}

}  // namespace mkc
