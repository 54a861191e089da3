#include <cmath>
#include <cstddef>

#include "codegen/bodies/code.h"
#include "codegen/device/bodies.h"
#include "codegen/operands.h"
#include "ir/bodies.h"

namespace mkc {
namespace {

static_assert(kMaxHeadDim == mk::kMaxHeadDim && kQueryTileRows == mk::kQueryTileRows &&
              kKvTilePositions == mk::kKvTile && kKvChunkPositions == mk::kKvChunk &&
              kBusyKvChunks == mk::kBusyKvChunks);

// Fills a mk::PagedCache.
void cache_arguments(Fields& f, size_t offset) {
  using C = mk::PagedCache;
  using Session = mkrt::MkSession;
  Emitter& e = f.e;
  const Bases& bases = f.call.bases;
  for (auto [role, data, scale] : {std::tuple{"k_cache", offsetof(C, k), offsetof(C, k_scale)},
                                   {"v_cache", offsetof(C, v), offsetof(C, v_scale)}}) {
    llvm::Value* record = e.at(bases.caches, operand_word(e, f.call, role, true), sizeof(mkrt::MkCache));
    f.set(offset + data, e.load_ptr(record, offsetof(mkrt::MkCache, base)));
    f.set(offset + scale, e.load_ptr(record, offsetof(mkrt::MkCache, scales)));
  }
  for (auto [to, from] : {std::pair{offsetof(C, page_stride), offsetof(Session, page_stride)},
                          {offsetof(C, position_stride), offsetof(Session, position_stride)},
                          {offsetof(C, head_stride), offsetof(Session, head_stride)}})
    f.set(offset + to, e.load64(bases.session, from));
  f.set(offset + offsetof(C, page_begin), e.load_ptr(bases.step, offsetof(mkrt::MkStep, page_begin)));
  f.set(offset + offsetof(C, page_index), e.load_ptr(bases.step, offsetof(mkrt::MkStep, page_index)));
  f.set(offset + offsetof(C, page_shift), e.load32(bases.session, offsetof(Session, page_shift)));
}

// Fills the arguments that append, attend and combine share. Pointers that a body does not need are null.
llvm::Value* attention_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::AttendArgs;
  Fields f{e, call, e.local(sizeof(A))};
  const BodyKind body = f.grid().body;
  const TaskProgram& program = call.schedule.program;
  f.set_operand(offsetof(A, q), "q");
  f.set_operand(offsetof(A, k), "k");
  f.set_operand(offsetof(A, v), "v");
  f.set_operand(offsetof(A, rope), "rope");
  f.set(offsetof(A, rotated), find_operand(f.grid(), "rope") != nullptr);
  f.set_operand(offsetof(A, q_norm), "q_norm");
  f.set_operand(offsetof(A, k_norm), "k_norm");
  if (body != BodyKind::kCombine) cache_arguments(f, offsetof(A, cache));
  const bool attend = body == BodyKind::kAttend;
  f.set_operand(offsetof(A, partial_acc), "partial_acc", attend);
  f.set_operand(offsetof(A, partial_ml), "partial_ml", attend);
  f.set_operand(offsetof(A, sinks), "sinks");
  f.set_operand(offsetof(A, out), "out", true);
  if (body != BodyKind::kAppend) {
    f.set(offsetof(A, tokens), e.value(f.tensor("partial_acc", attend).shape[1]));
    f.set(offsetof(A, partial_positions), e.value(partial_positions_of(program, f.grid())));
  }
  f.set(offsetof(A, out_bf16), body == BodyKind::kCombine && f.tensor("out", true).dtype == DType::bf16);
  const StepSymbols step = f.symbols();
  f.set_list(offsetof(A, request), step.blocks->request);
  f.set_list(offsetof(A, first_row), step.blocks->first_row);
  f.set_list(offsetof(A, rows), step.blocks->rows);
  f.set_list(offsetof(A, kv_len), step.blocks->kv_len);
  f.set_list(offsetof(A, context), step.kv_len);
  f.set_list(offsetof(A, step_rows), step.q_len);
  f.set(offsetof(A, window), int_attr(f.grid().attrs, "window", 0));
  f.set(offsetof(A, heads), int_attr(f.grid().attrs, "heads", 0));
  f.set(offsetof(A, kv_heads), int_attr(f.grid().attrs, "kv_heads", 0));
  f.set(offsetof(A, head_dim), int_attr(f.grid().attrs, "head_dim", 0));
  f.set_float(offsetof(A, q_eps), float_attr(f.grid().attrs, "q_eps", 0));
  f.set_float(offsetof(A, k_eps), float_attr(f.grid().attrs, "k_eps", 0));
  f.set_float(offsetof(A, scale), float_attr(f.grid().attrs, "scale", 0) * std::log2(std::exp(1.0)));
  return f.base;
}

// Calls the attend body once per KV tile and query tile. A query tile is the rows that one call takes
// together. Arguments are loaded again for each call, because they would fill registers.
void attend_task(Emitter& e, const BodyCall& call, const TaskCall& t) {
  const TaskProgram& program = call.schedule.program;
  const TaskGrid& grid = program.grids[call.grid];
  const std::vector<llvm::Value*>& coords = t.coords;
  const bool f32 = operand_tensor(program, grid, "k_cache").dtype == DType::f32;
  const int64_t group = int_attr(grid.attrs, "heads", 0) / int_attr(grid.attrs, "kv_heads", 1);
  const Expr rows = group * element(step_symbols(program.symbols).blocks->rows, coord(1));
  const Expr query_tiles = ceil_div(rows, f32 ? mk::kQueryTileRowsF32 : mk::kQueryTileRows),
             kv_tiles = floor_div(partial_positions_of(program, grid), kKvTilePositions);
  const auto each_query_tile = [&](llvm::Value* kv_tile) {
    e.loop(e.constant(0), e.value(query_tiles, coords), [&](llvm::Value* query_tile) {
      e.call(
          typed("mkb_attend", call, "k_cache").c_str(),
          {call.worker, attention_arguments(e, call), coords[0], coords[1], coords[2], kv_tile, query_tile});
    });
  };
  if (kv_tiles.is_const()) return each_query_tile(e.constant(0));  // exactly one KV tile
  e.loop(e.constant(0), e.value(kv_tiles), each_query_tile);
}

void append_task(Emitter& e, const BodyCall& call, const TaskCall& t) {
  e.call(typed("mkb_append", call, "k_cache", true).c_str(),
         {call.worker, t.arguments, t.coords[0], t.coords[1]});
}

void combine_task(Emitter& e, const BodyCall& call, const TaskCall& t) {
  e.call("mkb_combine", {call.worker, t.arguments, t.coords[0], t.coords[1]});
}

void attend_load(Emitter& e, const BodyCall& call, const TaskCall& t) {
  e.call(typed("mkd_stream_cache", call, "k_cache").c_str(),
         {call.worker, t.arguments, t.coords[0], t.coords[1], t.coords[2]});
}

}  // namespace

const BodyCode kAppendCode = {.arguments = attention_arguments, .task = append_task};
const BodyCode kAttendCode = {.arguments = attention_arguments, .task = attend_task, .load = attend_load};
const BodyCode kCombineCode = {.arguments = attention_arguments, .task = combine_task};

}  // namespace mkc
