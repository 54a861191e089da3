#include "codegen/bodies.h"

#include <cmath>
#include <cstddef>

#include "codegen/bodies_fields.h"
#include "codegen/bodies_product.h"
#include "codegen/device/bodies.h"
#include "codegen/operands.h"
#include "ir/bodies.h"
#include "ir/values.h"

namespace mkc {

static_assert(kBlockRows == mk::kBlockRows && kKvTilePositions == mk::kKvTile &&
              kKvChunkPositions == mk::kKvChunk && kBusyKvChunks == mk::kBusyKvChunks);

namespace {

llvm::Value* route_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::RouteArgs;
  Fields f{e, call, e.local(sizeof(A))};
  f.set_operand(offsetof(A, logits), "logits");
  f.set_operand(offsetof(A, share), "share", true);
  f.set_operand(offsetof(A, active_experts), "active_experts", true);
  f.set_operand(offsetof(A, expert), "expert", true);
  f.set_operand(offsetof(A, active_expert_rows), "active_expert_rows", true);
  f.set_operand(offsetof(A, active_expert_begin), "active_expert_begin", true);
  f.set_operand(offsetof(A, token), "token", true);
  f.set_operand(offsetof(A, row), "row", true);
  f.set(offsetof(A, tokens), e.value(f.tensor("logits").shape[0]));
  f.set(offsetof(A, experts), f.extent(f.tensor("logits"), 1));
  f.set(offsetof(A, top_k), int_attr(f.grid().attrs, "top_k", 0));
  f.set(offsetof(A, norm_topk), int_attr(f.grid().attrs, "norm_topk", 0));
  return f.base;
}

llvm::Value* expert_sum_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::ExpertSumArgs;
  static_assert(mk::kSumCols == kSumColumns);
  Fields f{e, call, e.local(sizeof(A))};
  const Tensor& x = f.tensor("x");
  f.set_operand(offsetof(A, x), "x");
  f.set_operand(offsetof(A, share), "share");
  f.set_operand(offsetof(A, row), "row");
  f.set_operand(offsetof(A, residual), "residual");
  f.set_operand(offsetof(A, out), "out", true);
  f.set_norm_outputs(offsetof(A, norm_outputs));
  f.set(offsetof(A, cols), f.extent(x, 1));
  f.set(offsetof(A, rows), e.value(x.shape[0]));
  f.set(offsetof(A, top_k), f.extent(f.tensor("share"), 1));
  return f.base;
}

llvm::Value* row_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::RowArgs;
  static_assert(mk::kRowCols == kRowColumns);
  Fields f{e, call, e.local(sizeof(A))};
  const TaskProgram& program = call.schedule.program;
  const Attrs& attrs = f.grid().attrs;
  f.set_operand(offsetof(A, x), "x");
  f.set_operand(offsetof(A, norm), "norm");
  f.set_operand(offsetof(A, norm_bias), "norm_bias");
  f.set_operand(offsetof(A, positions), "positions");
  f.set_operand(offsetof(A, rope), "rope");
  for (uint32_t i = 0; i < mk::kMaxRowSteps; ++i) {
    const std::string number = std::to_string(i);
    if (i < mk::kMaxRowOperands)
      f.set_operand(offsetof(A, operand) + i * sizeof(A::operand[0]), "operand" + number);
    f.set(offsetof(A, step) + i * sizeof(A::step[0]), int_attr(attrs, "step" + number, 0));
    f.set_float(offsetof(A, value) + i * sizeof(A::value[0]), float_attr(attrs, "value" + number, 0));
  }
  f.set_operand(offsetof(A, out), "out", true);
  f.set_norm_outputs(offsetof(A, norm_outputs));
  f.set_operand(offsetof(A, best_value), "best_value", true);
  f.set_operand(offsetof(A, best_index), "best_index", true);
  const bool gather_rows = int_attr(attrs, "gather_rows", 0) != 0;
  if (gather_rows) {
    f.set_list(offsetof(A, first_row), "first_row");
    f.set_list(offsetof(A, q_len), "q_len");
  }
  f.set(offsetof(A, rows), e.value(f.tensor("out", true).shape[0]));
  f.set(offsetof(A, x_rows), e.value(f.tensor("x").shape[0]));
  f.set(offsetof(A, gather_rows), gather_rows);
  f.set(offsetof(A, cols), f.extent(f.tensor("x"), 1));
  f.set(offsetof(A, block_cols), row_columns(program, f.grid()));
  f.set(offsetof(A, norm_cols), norm_columns(program, f.grid()));
  f.set(offsetof(A, centered), int_attr(attrs, "centered", 0));
  f.set(offsetof(A, head_dim), int_attr(attrs, "head_dim", 0));
  f.set(offsetof(A, out_bf16), f.tensor("out", true).dtype == DType::bf16);
  f.set_float(offsetof(A, eps), float_attr(attrs, "eps", 0));
  return f.base;
}

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
llvm::Value* attend_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::AttendArgs;
  Fields f{e, call, e.local(sizeof(A))};
  const BodyKind body = f.grid().body;
  const TaskProgram& program = call.schedule.program;
  f.set_operand(offsetof(A, q), "q");
  f.set_operand(offsetof(A, k), "k");
  f.set_operand(offsetof(A, v), "v");
  f.set_operand(offsetof(A, positions), "positions");
  f.set_operand(offsetof(A, rope), "rope");
  f.set(offsetof(A, rotated), find_operand(f.grid(), "rope") != nullptr);
  f.set_operand(offsetof(A, q_norm), "q_norm");
  f.set_operand(offsetof(A, k_norm), "k_norm");
  if (body != BodyKind::kCombine) cache_arguments(f, offsetof(A, cache));
  const bool attend = body == BodyKind::kAttend;
  f.set_operand(offsetof(A, partial_acc), "partial_acc", attend);
  f.set_operand(offsetof(A, partial_ml), "partial_ml", attend);
  f.set_operand(offsetof(A, out), "out", true);
  if (body != BodyKind::kAppend) {
    f.set(offsetof(A, tokens), e.value(f.tensor("partial_acc", attend).shape[1]));
    f.set(offsetof(A, partial_positions), e.value(partial_positions_of(program, f.grid())));
  }
  f.set(offsetof(A, out_bf16), body == BodyKind::kCombine && f.tensor("out", true).dtype == DType::bf16);
  f.set_list(offsetof(A, request), "block_request");
  f.set_list(offsetof(A, first_row), "block_first_row");
  f.set_list(offsetof(A, rows), "block_rows");
  f.set_list(offsetof(A, kv_len), "block_kv_len");
  f.set_list(offsetof(A, context), "kv_len");
  f.set_list(offsetof(A, step_rows), "q_len");
  f.set(offsetof(A, window), int_attr(f.grid().attrs, "window", 0));
  f.set(offsetof(A, heads), int_attr(f.grid().attrs, "heads", 0));
  f.set(offsetof(A, kv_heads), int_attr(f.grid().attrs, "kv_heads", 0));
  f.set(offsetof(A, head_dim), int_attr(f.grid().attrs, "head_dim", 0));
  f.set_float(offsetof(A, q_eps), float_attr(f.grid().attrs, "q_eps", 0));
  f.set_float(offsetof(A, k_eps), float_attr(f.grid().attrs, "k_eps", 0));
  f.set_float(offsetof(A, scale), float_attr(f.grid().attrs, "scale", 0) * std::log2(std::exp(1.0)));
  return f.base;
}

llvm::Value* embed_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::EmbedArgs;
  Fields f{e, call, e.local(sizeof(A))};
  f.set_operand(offsetof(A, tokens), "tokens");
  f.set_operand(offsetof(A, table), "table");
  f.set_operand(offsetof(A, out), "out", true);
  f.set_norm_outputs(offsetof(A, norm_outputs));
  f.set(offsetof(A, vocab), f.extent(f.tensor("table"), 0));
  f.set(offsetof(A, cols), f.extent(f.tensor("table"), 1));
  return f.base;
}

llvm::Value* sample_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::SampleArgs;
  static_assert(mkrt::kMaxVocab == kMaxSampled);
  Fields f{e, call, e.local(sizeof(A))};
  f.set_operand(offsetof(A, logits), "logits");
  f.set_operand(offsetof(A, best_value), "best_value");
  f.set_operand(offsetof(A, best_index), "best_index");
  f.set_operand(offsetof(A, next), "next", true);
  f.set(offsetof(A, samples), e.load_ptr(call.bases.step, offsetof(mkrt::MkStep, samples)));
  f.set(offsetof(A, slot), e.load_ptr(call.bases.step, offsetof(mkrt::MkStep, slot)));
  const Table<SymbolId, Symbol>& symbols = call.schedule.program.symbols;
  f.set_list(offsetof(A, first_row), "first_row");
  f.set_list(offsetof(A, rows), "q_len");
  f.set(offsetof(A, logit_rows), e.value(f.tensor("logits").shape[0]));
  f.set(offsetof(A, tokens), e.value(symbol(find_symbol(symbols, "T"))));
  f.set(offsetof(A, vocab), f.extent(f.tensor("logits"), 1));
  return f.base;
}

}  // namespace

llvm::Value* operand_address(Emitter& e, const BodyCall& call, std::string_view role, bool written) {
  const Table<TensorId, Tensor>& tensors = call.schedule.program.tensors;
  const TensorId tensor = find_operand(call.schedule.program.grids[call.grid], role, written)->tensor;
  switch (tensors[tensor].kind) {
    case TensorKind::kInput: {
      const size_t input = number_in_kind(tensors, tensor);
      return e.load_ptr(call.bases.step, offsetof(mkrt::MkStep, input) + 8 * input);
    }
    case TensorKind::kWeight:
    case TensorKind::kTable:
      return in_arena(e, call, call.bases.weights, role, written);
    case TensorKind::kActivation:
    case TensorKind::kOutput:
      return in_arena(e, call, call.bases.workspace, role, written);
    case TensorKind::kCache:
      break;
  }
  MKC_BUG("a cache has no address, or a tensor no known kind");
}

llvm::Value* emit_arguments(Emitter& e, const BodyCall& call) {
  switch (call.schedule.program.grids[call.grid].body) {
    case BodyKind::kEmbed:
      return embed_arguments(e, call);
    case BodyKind::kProduct:
    case BodyKind::kSplitKPartial:
      return product_arguments(e, call);
    case BodyKind::kSplitKReduce:
      return split_k_reduce_arguments(e, call);
    case BodyKind::kAppend:
    case BodyKind::kAttend:
    case BodyKind::kCombine:
      return attend_arguments(e, call);
    case BodyKind::kSample:
      return sample_arguments(e, call);
    case BodyKind::kRoute:
      return route_arguments(e, call);
    case BodyKind::kExpert:
      return expert_arguments(e, call);
    case BodyKind::kExpertSum:
      return expert_sum_arguments(e, call);
    case BodyKind::kRow:
      return row_arguments(e, call);
  }
  MKC_BUG("unknown body");
}

}  // namespace mkc
