#include "codegen/bodies.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>

#include "codegen/device/bodies.h"
#include "ir/bodies.h"
#include "ir/values.h"

namespace mkc {
namespace {

struct Operand {
  size_t position = 0;  // among reads, then writes
  const Access* access = nullptr;
};

// The operand of a role; .access null where the grid has none. `written`: among the writes.
Operand find_operand(const TaskGrid& grid, std::string_view role, bool written) {
  const std::vector<Access>& accesses = written ? grid.writes : grid.reads;
  for (size_t i = 0; i < accesses.size(); ++i)
    if (accesses[i].role == role) return {i + (written ? grid.reads.size() : 0), &accesses[i]};
  return {};
}

// Writes fields of an argument struct of the bodies, at their C++ offsets.
struct Fields {
  Emitter& e;
  const BodyCall& call;
  llvm::Value* base;

  const TaskGrid& grid() const { return call.schedule.program.grids[call.grid]; }
  const Tensor& tensor(std::string_view role, bool written = false) const {
    const Operand operand = find_operand(grid(), role, written);
    MKC_ASSERT(operand.access, fmt::format("grid {} has no operand {}", grid().name, role));
    return call.schedule.program.tensors[operand.access->tensor];
  }
  void set(size_t offset, llvm::Value* value) { e.ir.CreateStore(value, e.at(base, offset)); }
  void set(size_t offset, int64_t value) { set(offset, e.constant(value)); }
  void set_float(size_t offset, double value) {
    set(offset, llvm::ConstantFP::get(e.ir.getFloatTy(), static_cast<float>(value)));
  }
  // The operand's address; null where the grid has no such operand.
  void set_operand(size_t offset, std::string_view role, bool written = false) {
    const Operand operand = find_operand(grid(), role, written);
    set(offset, operand.access ? operand_address(e, call, operand.position)
                               : llvm::ConstantPointerNull::get(e.global_ptr));
  }
  int64_t extent(const Tensor& t, size_t dim) const { return t.shape[dim].constant(); }
};

// Of a product, or of the product of an expert: `x` is the role of its rows.
void fill_product(Fields& f, const char* x, const Expr& tokens) {
  using A = mk::ProductArgs;
  const Tensor &weight = f.tensor("weight"), &out = f.tensor("out", true);
  const size_t row_dim = weight.shape.size() - 2;
  const int64_t rows = f.extent(weight, row_dim), cols = f.extent(weight, row_dim + 1);
  const auto shape = mkrt::packed_shape(static_cast<uint64_t>(rows), static_cast<uint64_t>(cols),
                                        static_cast<uint32_t>(dtype_bytes(weight.dtype)));
  f.set_operand(offsetof(A, x), x);
  f.set_operand(offsetof(A, norm), "norm");
  f.set_operand(offsetof(A, bias), "bias");
  f.set_operand(offsetof(A, residual), "residual");
  f.set_operand(offsetof(A, out), "out", true);
  f.set_operand(offsetof(A, best_value), "best_value", true);
  f.set_operand(offsetof(A, best_index), "best_index", true);
  f.set(offsetof(A, rows), rows);
  f.set(offsetof(A, cols), cols);
  f.set(offsetof(A, out_cols), f.extent(out, out.shape.size() - 1));
  f.set(offsetof(A, strips), static_cast<int64_t>(shape.strips));
  f.set(offsetof(A, tiles), shape.tiles);
  f.set(offsetof(A, tail_cols),
        static_cast<int64_t>(shape.padded_cols) - int64_t{shape.tiles - 1} * shape.tile_cols);
  f.set(offsetof(A, tokens), f.e.value(tokens));
  f.set(offsetof(A, silu_mul), int_attr(f.grid().attrs, "silu_mul", 0));
  f.set(offsetof(A, invariant), int_attr(f.grid().attrs, "invariant", 0));
  f.set_float(offsetof(A, eps), float_attr(f.grid().attrs, "eps", 0));
}

llvm::Value* product_arguments(Emitter& e, const BodyCall& call) {
  Fields f{e, call, e.local(sizeof(mk::ProductArgs))};
  fill_product(f, "x", f.tensor("x").shape[0]);
  return f.base;
}

llvm::Value* expert_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::ExpertArgs;
  static_assert(offsetof(A, product) == 0);
  Fields f{e, call, e.local(sizeof(A))};
  const Expr& rows = f.tensor("out", true).shape[0];
  fill_product(f, find_operand(f.grid(), "x", false).access ? "x" : "rows",
               floor_div(rows, int_attr(f.grid().attrs, "top_k", 1)));
  f.set_operand(offsetof(A, expert), "expert");
  f.set_operand(offsetof(A, slot_rows), "slot_rows");
  f.set_operand(offsetof(A, slot_begin), "slot_begin");
  f.set_operand(offsetof(A, token), "token");
  f.set(offsetof(A, rows), e.value(rows));
  return f.base;
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
  f.set(offsetof(A, cols), f.extent(x, 1));
  f.set(offsetof(A, rows), e.value(x.shape[0]));
  f.set(offsetof(A, top_k), f.extent(f.tensor("share"), 1));
  return f.base;
}

// Where a list of the step lies in the worker's shared memory.
llvm::Value* list_address(Emitter& e, const BodyCall& call, SymbolId list) {
  return e.call("mkd_list", e.shared_ptr, {call.worker, e.constant(call.lists.number(list))});
}

// Where an operand lies in its arena, or a cache among the session's MkCache.
llvm::Value* in_arena(Emitter& e, const BodyCall& call, llvm::Value* base, size_t position) {
  llvm::Value* offset = e.load64(call.record, offsetof(mkrt::MkGrid, operand) + 8 * position);
  return e.ir.CreateInBoundsGEP(e.ir.getInt8Ty(), base, offset);
}

// Fills a mk::PagedCache.
void cache_arguments(Fields& f, size_t offset) {
  using C = mk::PagedCache;
  using Session = mkrt::MkSession;
  Emitter& e = f.e;
  const Bases& bases = f.call.bases;
  for (auto [role, data, scale] : {std::tuple{"k_cache", offsetof(C, k), offsetof(C, k_scale)},
                                   {"v_cache", offsetof(C, v), offsetof(C, v_scale)}}) {
    llvm::Value* record = in_arena(e, f.call, bases.caches, find_operand(f.grid(), role, true).position);
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

// Attend and combine share their arguments; each leaves what only the other needs null.
llvm::Value* attend_arguments(Emitter& e, const BodyCall& call) {
  using A = mk::AttendArgs;
  Fields f{e, call, e.local(sizeof(A))};
  const bool combine = f.grid().body == BodyKind::kCombine;
  const Tensor& parts = f.tensor("part_acc", !combine);
  const TaskProgram& program = call.schedule.program;
  f.set_operand(offsetof(A, q), "q");
  f.set_operand(offsetof(A, k), "k");
  f.set_operand(offsetof(A, v), "v");
  f.set_operand(offsetof(A, positions), "positions");
  f.set_operand(offsetof(A, rope), "rope");
  f.set_operand(offsetof(A, q_norm), "q_norm");
  f.set_operand(offsetof(A, k_norm), "k_norm");
  if (!combine) cache_arguments(f, offsetof(A, cache));
  f.set_operand(offsetof(A, part_acc), "part_acc", !combine);
  f.set_operand(offsetof(A, part_ml), "part_ml", !combine);
  f.set_operand(offsetof(A, out), "out", true);
  f.set(offsetof(A, max_tokens), bounds(parts.shape[1], symbol_bounds(program.symbols)).hi);
  for (auto [name, offset] : {std::pair{"first_row", offsetof(A, first_row)},
                              {"q_len", offsetof(A, rows)},
                              {"kv_len", offsetof(A, kv_len)}})
    f.set(offset, list_address(e, call, find_symbol(program.symbols, name)));
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
  for (auto [name, offset] : {std::pair{"first_row", offsetof(A, first_row)}, {"q_len", offsetof(A, rows)}})
    f.set(offset, list_address(e, call, find_symbol(call.schedule.program.symbols, name)));
  f.set(offsetof(A, vocab), f.extent(f.tensor("logits"), 1));
  return f.base;
}

const TaskGrid& grid_of(const BodyCall& call) {
  return call.schedule.program.grids[call.grid];
}

// "mkb_product_bf16": the body for the dtype of one of the grid's operands.
std::string typed_body(const BodyCall& call, std::string_view role) {
  const Operand operand = find_operand(grid_of(call), role, false);
  MKC_ASSERT(operand.access, fmt::format("grid {} has no operand {}", grid_of(call).name, role));
  const DType dtype = call.schedule.program.tensors[operand.access->tensor].dtype;
  return fmt::format("mkb_{}_{}", body_name(grid_of(call).body), dtype_name(dtype));
}

}  // namespace

llvm::Value* operand_address(Emitter& e, const BodyCall& call, size_t position) {
  const TaskGrid& grid = grid_of(call);
  const Access& access =
      position < grid.reads.size() ? grid.reads[position] : grid.writes[position - grid.reads.size()];
  const Table<TensorId, Tensor>& tensors = call.schedule.program.tensors;
  switch (tensors[access.tensor].kind) {
    case TensorKind::kInput: {
      const size_t input = number_in_kind(tensors, access.tensor);
      return e.load_ptr(call.bases.step, offsetof(mkrt::MkStep, input) + 8 * input);
    }
    case TensorKind::kWeight:
    case TensorKind::kTable:
      return in_arena(e, call, call.bases.weights, position);
    case TensorKind::kActivation:
    case TensorKind::kOutput:
      return in_arena(e, call, call.bases.workspace, position);
    case TensorKind::kCache:
      break;
  }
  MKC_BUG("a cache has no address, or a tensor no known kind");
}

llvm::Value* emit_arguments(Emitter& e, const BodyCall& call) {
  switch (grid_of(call).body) {
    case BodyKind::kEmbed:
      return embed_arguments(e, call);
    case BodyKind::kProduct:
      return product_arguments(e, call);
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

void emit_segment_start(Emitter& e, const BodyCall& call, llvm::Value* arguments) {
  const TaskGrid& grid = grid_of(call);
  const bool multiplies = grid.body == BodyKind::kProduct || grid.body == BodyKind::kExpert;
  if (multiplies && find_operand(grid, "norm", false).access)
    e.call("mkb_product_norm", {call.worker, arguments});
}

void emit_task(Emitter& e, const BodyCall& call, llvm::Value* arguments,
               const std::vector<llvm::Value*>& coords) {
  switch (grid_of(call).body) {
    case BodyKind::kEmbed:
      return e.call(typed_body(call, "table").c_str(), {call.worker, arguments, coords[0]});
    case BodyKind::kProduct:
      return e.call(typed_body(call, "weight").c_str(), {call.worker, arguments, coords[0]});
    case BodyKind::kAttend:
      return e.call(typed_body(call, "k_cache").c_str(),
                    {call.worker, arguments, coords[0], coords[1], coords[2]});
    case BodyKind::kCombine:
      return e.call("mkb_combine", {call.worker, arguments, coords[0], coords[1]});
    case BodyKind::kDraw:
      return e.call("mkb_draw", {call.worker, arguments, coords[0]});
    case BodyKind::kRoute:
      return e.call("mkb_route", {call.worker, arguments});
    case BodyKind::kExpert:
      return e.call(typed_body(call, "weight").c_str(), {call.worker, arguments, coords[0], coords[1]});
    case BodyKind::kExpertSum:
      return e.call("mkb_expert_sum", {call.worker, arguments, coords[0], coords[1]});
  }
  MKC_BUG("unknown body");
}

}  // namespace mkc
