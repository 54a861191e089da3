#include "codegen/bodies.h"

#include <cmath>
#include <cstddef>

#include "codegen/device/bodies.h"
#include "codegen/operands.h"
#include "ir/bodies.h"
#include "ir/values.h"

namespace mkc {

static_assert(kBlockRows == mk::kBlockRows && kPiecePositions == mk::kPiece && kSpanPositions == mk::kSpan &&
              kBusySpans == mk::kBusySpans);

namespace {

// Of an operand, what the record says.
llvm::Value* operand_entry(Emitter& e, const BodyCall& call, std::string_view role, bool written) {
  const BodyKind body = call.schedule.program.grids[call.grid].body;
  return e.load64(call.record, offsetof(mkrt::MkGrid, operand) + 8 * operand_place(body, role, written));
}

// Writes fields of an argument struct of the bodies, at their C++ offsets.
struct Fields {
  Emitter& e;
  const BodyCall& call;
  llvm::Value* base;

  const TaskGrid& grid() const { return call.schedule.program.grids[call.grid]; }
  const Tensor& tensor(std::string_view role, bool written = false) const {
    return operand_tensor(call.schedule.program, grid(), role, written);
  }
  void set(size_t offset, llvm::Value* value) { e.ir.CreateStore(value, e.at(base, offset)); }
  void set(size_t offset, int64_t value) { set(offset, e.constant(value)); }
  void set_float(size_t offset, double value) {
    set(offset, llvm::ConstantFP::get(e.ir.getFloatTy(), static_cast<float>(value)));
  }
  // The operand's address; null where the grid has no such operand.
  void set_operand(size_t offset, std::string_view role, bool written = false) {
    set(offset, find_operand(grid(), role, written) ? operand_address(e, call, role, written)
                                                    : llvm::ConstantPointerNull::get(e.global_ptr));
  }
  // The same of an operand that not all products that share the code have.
  void set_optional(size_t offset, llvm::Value* arena, std::string_view role, bool written = false) {
    if (grid().body != BodyKind::kProduct) return set_operand(offset, role, written);
    llvm::Value* place = operand_entry(e, call, role, written);
    set(offset, e.ir.CreateSelect(e.ir.CreateICmpEQ(place, e.ir.getInt64(mkrt::kNoOperand)),
                                  llvm::ConstantPointerNull::get(e.global_ptr),
                                  e.ir.CreateGEP(e.ir.getInt8Ty(), arena, place)));
  }
  // Where a list of the step lies in the worker's shared memory.
  void set_list(size_t offset, std::string_view name) {
    const SymbolId list = find_symbol(call.schedule.program.symbols, name);
    set(offset, e.call("mkd_list", e.shared_ptr, {call.worker, e.constant(call.lists.at(list))}));
  }
  int64_t extent(const Tensor& t, size_t dim) const { return t.shape[dim].constant(); }
};

// Of a product, or of the product of an expert. Sizes are the record's, so that products share their code.
void fill_product(Fields& f, const Expr& tokens) {
  using A = mk::ProductArgs;
  using P = mkrt::MkProduct;
  const Bases& bases = f.call.bases;
  const auto cols = static_cast<uint32_t>(f.tensor("weight").shape.back().constant());
  const std::string& x = multiplied_rows(f.grid())->role;
  f.set_operand(offsetof(A, x), x);
  f.set_operand(offsetof(A, norm), "norm");
  f.set_operand(offsetof(A, squares), "squares");
  f.set_operand(offsetof(A, out), "out", true);
  const size_t next = offsetof(A, next);
  f.set_optional(next + offsetof(mk::NextArgs, norm), bases.weights, "next_norm");
  f.set_optional(next + offsetof(mk::NextArgs, rounded), bases.workspace, "rounded", true);
  f.set_optional(next + offsetof(mk::NextArgs, squares), bases.workspace, "squares", true);
  f.set_optional(offsetof(A, bias), bases.weights, "bias");
  f.set_optional(offsetof(A, residual), bases.workspace, "residual");
  f.set_optional(offsetof(A, best_value), bases.workspace, "best_value", true);
  f.set_optional(offsetof(A, best_index), bases.workspace, "best_index", true);
  for (auto [to, from] : {std::pair{offsetof(A, rows), offsetof(P, rows)},
                          {offsetof(A, cols), offsetof(P, cols)},
                          {offsetof(A, out_cols), offsetof(P, out_cols)},
                          {offsetof(A, strips), offsetof(P, strips)},
                          {offsetof(A, tiles), offsetof(P, tiles)},
                          {offsetof(A, tail_cols), offsetof(P, tail_cols)},
                          {offsetof(A, silu_mul), offsetof(P, silu_mul)},
                          {offsetof(A, eps), offsetof(P, eps)},
                          {offsetof(A, parts), offsetof(P, parts)},
                          {offsetof(A, out_rounded), offsetof(P, out_rounded)}})
    f.set(to, f.e.load32(f.call.record, offsetof(mkrt::MkGrid, product) + from));
  f.set(offsetof(A, tokens), f.e.value(tokens));
  f.set(offsetof(A, picks), picks_rows(f.grid()));
  f.set(offsetof(A, normed), find_operand(f.grid(), "norm") != nullptr);
  f.set(offsetof(A, rounded), f.tensor(x).dtype == DType::bf16);
  f.set(offsetof(A, scaled), find_operand(f.grid(), "norm") || find_operand(f.grid(), "squares"));
  f.set(offsetof(A, padding), static_cast<int64_t>(mk::padding_of(cols)));
  f.set(offsetof(A, wide_from), wide_from(f.call.schedule, f.call.grid, f.call.engines));
}

llvm::Value* product_arguments(Emitter& e, const BodyCall& call) {
  Fields f{e, call, e.local(sizeof(mk::ProductArgs))};
  fill_product(f, f.tensor("out", true).shape[0]);
  f.set(offsetof(mk::ProductArgs, x_rows), e.value(f.tensor("x").shape[0]));
  if (picks_rows(f.grid())) {
    f.set_list(offsetof(mk::ProductArgs, q_len), "q_len");
    f.set_list(offsetof(mk::ProductArgs, first_row), "first_row");
  }
  return f.base;
}

llvm::Value* expert_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::ExpertArgs;
  static_assert(offsetof(A, product) == 0);
  Fields f{e, call, e.local(sizeof(A))};
  const Expr& rows = f.tensor("out", true).shape[0];
  const Expr tokens = floor_div(rows, int_attr(f.grid().attrs, "top_k", 1));
  fill_product(f, tokens);
  f.set(offsetof(mk::ProductArgs, x_rows), e.value(tokens));
  f.set_operand(offsetof(A, expert), "expert");
  f.set_operand(offsetof(A, slot_rows), "slot_rows");
  f.set_operand(offsetof(A, slot_begin), "slot_begin");
  f.set_operand(offsetof(A, token), "token");
  f.set(offsetof(A, rows), e.value(rows));
  f.set(offsetof(A, strips), task_strips(f.grid()));
  f.set(offsetof(A, picks), find_operand(f.grid(), "token") != nullptr);
  return f.base;
}

// What the next norm's products take.
void set_next(Fields& f, size_t offset) {
  using N = mk::NextArgs;
  f.set_operand(offset + offsetof(N, norm), "next_norm");
  f.set_operand(offset + offsetof(N, rounded), "rounded", true);
  f.set_operand(offset + offsetof(N, squares), "squares", true);
}

llvm::Value* route_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::RouteArgs;
  Fields f{e, call, e.local(sizeof(A))};
  f.set_operand(offsetof(A, logits), "logits");
  f.set_operand(offsetof(A, share), "share", true);
  f.set_operand(offsetof(A, slots), "slots", true);
  f.set_operand(offsetof(A, expert), "expert", true);
  f.set_operand(offsetof(A, slot_rows), "slot_rows", true);
  f.set_operand(offsetof(A, slot_begin), "slot_begin", true);
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
  set_next(f, offsetof(A, next));
  f.set(offsetof(A, cols), f.extent(x, 1));
  f.set(offsetof(A, rows), e.value(x.shape[0]));
  f.set(offsetof(A, top_k), f.extent(f.tensor("share"), 1));
  return f.base;
}

// Where an operand lies in its arena, or a cache among the session's MkCache.
llvm::Value* in_arena(Emitter& e, const BodyCall& call, llvm::Value* base, std::string_view role,
                      bool written) {
  return e.ir.CreateInBoundsGEP(e.ir.getInt8Ty(), base, operand_entry(e, call, role, written));
}

// Fills a mk::PagedCache.
void cache_arguments(Fields& f, size_t offset) {
  using C = mk::PagedCache;
  using Session = mkrt::MkSession;
  Emitter& e = f.e;
  const Bases& bases = f.call.bases;
  for (auto [role, data, scale] : {std::tuple{"k_cache", offsetof(C, k), offsetof(C, k_scale)},
                                   {"v_cache", offsetof(C, v), offsetof(C, v_scale)}}) {
    llvm::Value* record = in_arena(e, f.call, bases.caches, role, true);
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

// Append, attend and combine share their arguments; each leaves what only the others need null.
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
  f.set_operand(offsetof(A, q_norm), "q_norm");
  f.set_operand(offsetof(A, k_norm), "k_norm");
  if (body != BodyKind::kCombine) cache_arguments(f, offsetof(A, cache));
  const bool attend = body == BodyKind::kAttend;
  f.set_operand(offsetof(A, part_acc), "part_acc", attend);
  f.set_operand(offsetof(A, part_ml), "part_ml", attend);
  f.set_operand(offsetof(A, out), "out", true);
  if (body != BodyKind::kAppend) {
    f.set(offsetof(A, tokens), e.value(f.tensor("part_acc", attend).shape[1]));
    f.set(offsetof(A, part), e.value(part_of(program, f.grid())));
  }
  f.set(offsetof(A, out_rounded), body == BodyKind::kCombine && f.tensor("out", true).dtype == DType::bf16);
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
  set_next(f, offsetof(A, next));
  f.set(offsetof(A, vocab), f.extent(f.tensor("table"), 0));
  f.set(offsetof(A, cols), f.extent(f.tensor("table"), 1));
  return f.base;
}

llvm::Value* draw_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::DrawArgs;
  static_assert(mkrt::kMaxVocab == kMostDrawn);
  Fields f{e, call, e.local(sizeof(A))};
  f.set_operand(offsetof(A, logits), "logits");
  f.set_operand(offsetof(A, best_value), "best_value");
  f.set_operand(offsetof(A, best_index), "best_index");
  f.set_operand(offsetof(A, next), "next", true);
  f.set(offsetof(A, draws), e.load_ptr(call.bases.step, offsetof(mkrt::MkStep, draws)));
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
      return product_arguments(e, call);
    case BodyKind::kAppend:
    case BodyKind::kAttend:
    case BodyKind::kCombine:
      return attend_arguments(e, call);
    case BodyKind::kDraw:
      return draw_arguments(e, call);
    case BodyKind::kRoute:
      return route_arguments(e, call);
    case BodyKind::kExpert:
      return expert_arguments(e, call);
    case BodyKind::kExpertSum:
      return expert_sum_arguments(e, call);
  }
  MKC_BUG("unknown body");
}

}  // namespace mkc
