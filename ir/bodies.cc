#include "ir/bodies.h"

#include <algorithm>

namespace mkc {
namespace {

using enum OperandKind;

// The table is in the order of BodyKind.
const std::vector<BodySchema>& body_table() {
  static const std::vector<BodySchema> table = {
      {{{"t", "T"}},
       {{"tokens", {kStep, "T"}}, {"table", {kWeight, "VD"}}, {"next_norm?", {kVector, "D"}}},
       {{"out", {kValue, "TD"}}, {"x_bf16?", {kBf16Value, "TD"}}, {"sum_squares?", {kValue, "T1"}}},
       {},
       {}},
      {{{"j", "S"}},
       {{"x", {kEither, "XK"}},
        {"weight", {kWeight, "NK"}},
        {"norm?", {kVector, "K"}},
        {"sum_squares?", {kValue, "XP"}},
        {"bias?", {kVector, "N"}},
        {"residual?", {kValue, "TO"}},
        {"next_norm?", {kVector, "O"}}},
       {{"out", {kEither, "TO"}},
        {"x_bf16?", {kBf16Value, "TO"}},
        {"sum_squares?", {kValue, "TS"}},
        {"best_value?", {kValue, "TS"}},
        {"best_index?", {kIndex, "TS"}}},
       {"gather_rows?", "gate?", "wgmma_from?"},
       {"eps?"}},
      {{{"g", "G"}, {"k", ""}},
       {{"k", {kValue, "TE"}},
        {"v", {kValue, "TE"}},
        {"positions?", {kStep, "T"}},
        {"rope?", {kTable, "Rh"}},
        {"k_norm?", {kVector, "h"}}},
       {{"k_cache", {kCache, "BGCh"}}, {"v_cache", {kCache, "BGCh"}}},
       {"head_dim", "heads", "kv_heads"},
       {"k_eps?"}},
      {{{"g", "G"}, {"k", ""}, {"p", ""}},
       {{"q", {kValue, "TQ"}},
        {"k", {kValue, "TE"}},
        {"v", {kValue, "TE"}},
        {"positions?", {kStep, "T"}},
        {"rope?", {kTable, "Rh"}},
        {"q_norm?", {kVector, "h"}},
        {"k_norm?", {kVector, "h"}},
        {"k_cache", {kCache, "BGCh"}},
        {"v_cache", {kCache, "BGCh"}}},
       {{"k_cache", {kCache, "BGCh"}},
        {"v_cache", {kCache, "BGCh"}},
        {"partial_acc", {kValue, "PTQ"}},
        {"partial_ml", {kValue, "PTM"}}},
       {"head_dim", "heads", "kv_heads", "kv_tile", "window?"},
       {"k_eps?", "q_eps?", "scale"}},
      {{{"g", "G"}, {"k", ""}},
       {{"partial_acc", {kValue, "PTQ"}}, {"partial_ml", {kValue, "PTM"}}},
       {{"out", {kEither, "TQ"}}},
       {"head_dim", "heads", "kv_heads", "kv_tile", "window?"},
       {}},
      {{{"b", "B"}},
       {{"logits", {kValue, "TV"}}, {"best_value", {kValue, "TS"}}, {"best_index", {kIndex, "TS"}}},
       {{"next", {kIndex, "B"}}},
       {},
       {}},
      {{},
       {{"logits", {kValue, "TX"}}},
       {{"share", {kValue, "Tk"}},
        {"active_experts", {kIndex, "1"}},
        {"expert", {kIndex, "X"}},
        {"active_expert_rows", {kIndex, "X"}},
        {"active_expert_begin", {kIndex, "X"}},
        {"token", {kIndex, "R"}},
        {"row", {kIndex, "Tk"}}},
       {"norm_topk", "top_k"},
       {}},
      {{{"j", "S"}, {"s", ""}},
       {{"x?", {kEither, "TK"}},
        {"rows?", {kEither, "RK"}},
        {"weight", {kWeight, "XNK"}},
        {"norm?", {kVector, "K"}},
        {"sum_squares?", {kValue, "TP"}},
        {"active_experts", {kIndex, "1"}},
        {"expert", {kIndex, "X"}},
        {"active_expert_rows", {kIndex, "X"}},
        {"active_expert_begin", {kIndex, "X"}},
        {"token?", {kIndex, "R"}}},
       {{"out", {kEither, "RO"}}},
       {"gate?", "strips?", "top_k"},
       {"eps?"}},
      {{{"t", "T"}, {"c", ""}},
       {{"x", {kValue, "RD"}},
        {"share", {kValue, "Tk"}},
        {"active_experts", {kIndex, "1"}},
        {"row", {kIndex, "Tk"}},
        {"residual?", {kValue, "TD"}},
        {"next_norm?", {kVector, "D"}}},
       {{"out", {kValue, "TD"}}, {"x_bf16?", {kBf16Value, "TD"}}, {"sum_squares?", {kValue, "TP"}}},
       {},
       {}},
      {{{"p", ""}, {"j", "S"}},
       {{"x", {kEither, "TK"}}, {"weight", {kWeight, "NK"}}, {"norm?", {kVector, "K"}}},
       {{"sums", {kValue, "ScTr"}}},
       {"wgmma_from?"},
       {"eps?"}},
      {{{"j", "S"}},
       {{"sums", {kValue, "ScTr"}},
        {"sum_squares?", {kValue, "TP"}},
        {"bias?", {kVector, "O"}},
        {"residual?", {kValue, "TO"}},
        {"next_norm?", {kVector, "O"}}},
       {{"out", {kEither, "TO"}}, {"x_bf16?", {kBf16Value, "TO"}}, {"sum_squares?", {kValue, "TS"}}},
       {"columns?", "gate?"},
       {"eps?"}},
      {{{"t", "T"}, {"c", ""}},
       {{"x", {kValue, "XD"}},
        {"norm?", {kVector, "N"}},
        {"norm_bias?", {kVector, "N"}},
        {"positions?", {kStep, "T"}},
        {"rope?", {kTable, "Rh"}},
        {"operand0?", {kValue, "TD"}},
        {"operand1?", {kValue, "TD"}},
        {"next_norm?", {kVector, "D"}}},
       {{"out", {kEither, "TD"}},
        {"x_bf16?", {kBf16Value, "TD"}},
        {"sum_squares?", {kValue, "TP"}},
        {"best_value?", {kValue, "TS"}},
        {"best_index?", {kIndex, "TS"}}},
       {"centered?", "gather_rows?", "head_dim?", "step0?", "step1?", "step2?", "step3?"},
       {"eps?", "value0?", "value1?", "value2?", "value3?"}},
  };
  return table;
}

bool is_computed(TensorKind kind) {
  return kind == TensorKind::kActivation || kind == TensorKind::kOutput;
}

}  // namespace

bool fits(OperandKind kind, const Tensor& t) {
  switch (kind) {
    case kValue:
      return is_computed(t.kind) && t.dtype == DType::f32;
    case kBf16Value:
      return t.kind == TensorKind::kActivation && t.dtype == DType::bf16;
    case kEither:
      return fits(kValue, t) || fits(kBf16Value, t);
    case kIndex:
      return is_computed(t.kind) && t.dtype == DType::i32;
    case kStep:
      return t.kind == TensorKind::kInput && t.dtype == DType::i32;
    case kWeight:
      return t.kind == TensorKind::kWeight && find_weight_type(t.dtype).has_value();
    case kVector:
      return t.kind == TensorKind::kWeight && t.dtype == DType::f32;
    case kTable:
      return t.kind == TensorKind::kTable && t.dtype == DType::f32;
    case kCache:
      return t.kind == TensorKind::kCache && t.dtype != DType::i32;
  }
  MKC_BUG("operand of unknown kind");
}

const char* operand_text(OperandKind kind) {
  switch (kind) {
    case kValue:
      return "f32 activation or output";
    case kBf16Value:
      return "bf16 activation";
    case kEither:
      return "f32 or bf16 activation";
    case kIndex:
      return "i32 activation or output";
    case kStep:
      return "i32 input";
    case kWeight:
      return "floating-point weight";
    case kVector:
      return "f32 weight";
    case kTable:
      return "f32 table";
    case kCache:
      return "floating-point cache";
  }
  MKC_BUG("operand of unknown kind");
}

const BodySchema& body_schema(BodyKind kind) {
  return body_table()[static_cast<size_t>(kind)];
}

bool looks_up(BodyKind kind, std::string_view role) {
  if (kind == BodyKind::kExpertSum) return role == "active_experts";
  return kind == BodyKind::kExpert &&
         (role == "active_experts" || role == "expert" || role == "active_expert_rows" ||
          role == "active_expert_begin" || role == "token");
}

int64_t norm_columns(const TaskProgram& program, const TaskGrid& row) {
  const Access* norm = find_operand(row, "norm");
  return norm ? program.tensors[norm->tensor].shape[0].constant() : 0;
}

int64_t row_columns(const TaskProgram& program, const TaskGrid& row) {
  const int64_t cols = program.tensors[find_operand(row, "out", true)->tensor].shape[1].constant(),
                normed = norm_columns(program, row),
                head = std::max(normed, int_attr(row.attrs, "head_dim", 0));
  if (normed == cols || head == 0) return normed == 0 ? kRowColumns : cols;
  return std::max<int64_t>(1, kRowColumns / head) * head;
}

std::vector<NamedDim> dims_of(const Attrs& attrs) {
  const int64_t head_dim = int_attr(attrs, "head_dim", 0), heads = int_attr(attrs, "heads", 0),
                kv_heads = int_attr(attrs, "kv_heads", 0);
  std::vector<NamedDim> dims{{'1', 1}, {'c', kKSlices}, {'r', kTileRows}};
  if (head_dim != 0) dims.push_back({'h', head_dim});
  if (heads != 0) {
    dims.push_back({'G', kv_heads});
    dims.push_back({'Q', heads * head_dim});
    dims.push_back({'E', kv_heads * head_dim});
    dims.push_back({'M', 2 * heads});
  }
  if (const Attr* top_k = find_attr(attrs, "top_k")) dims.push_back({'k', top_k->i});
  return dims;
}

Expr first_kv_tile(const Expr& rows, const Expr& kv_len, int64_t window, int64_t kv_tile) {
  if (window == 0) return 0;
  return floor_div(max(0, kv_len - rows + 1 - window), kv_tile);
}

}  // namespace mkc
