#include "ir/ops.h"

namespace mkc {
namespace {

// In the order of OpKind.
const std::vector<OpSchema>& schemas() {
  static const std::vector<OpSchema> table = {
      {OpKind::kEmbed, "embed", {"tokens", "table"}, {"out"}, {}, {}},
      {OpKind::kRmsNorm, "rms_norm", {"x", "weight"}, {"out"}, {}, {"eps"}},
      {OpKind::kLinear, "linear", {"x", "weight", "bias?"}, {"out"}, {}, {}},
      {OpKind::kHeadNorm, "head_norm", {"x", "weight"}, {"out"}, {"head_dim"}, {"eps"}},
      {OpKind::kRope, "rope", {"x", "positions", "table"}, {"out"}, {"head_dim"}, {}},
      {OpKind::kKvWrite, "kv_write", {"k", "v", "positions"}, {"k_cache", "v_cache"}, {}, {}},
      {OpKind::kAttention,
       "attention",
       {"q", "k_cache", "v_cache", "positions"},
       {"out"},
       {"head_dim", "heads", "kv_heads", "window"},
       {"scale"}},
      {OpKind::kAdd, "add", {"a", "b"}, {"out"}, {}, {}},
      {OpKind::kSiluMul, "silu_mul", {"gate", "up"}, {"out"}, {}, {}},
      {OpKind::kGatherRows, "gather_rows", {"x"}, {"out"}, {}, {}},
      {OpKind::kSample, "sample", {"logits"}, {"out"}, {}, {}},
      {OpKind::kRoute, "route", {"logits"}, {"choice", "share"}, {"norm_topk", "top_k"}, {}},
      {OpKind::kExpertLinear, "expert_linear", {"x", "choice", "weight"}, {"out"}, {}, {}},
      {OpKind::kExpertSum, "expert_sum", {"x", "share"}, {"out"}, {}, {}},
  };
  return table;
}

}  // namespace

const OpSchema& op_schema(OpKind kind) {
  return schemas()[static_cast<size_t>(kind)];
}

const OpSchema* find_op_schema(std::string_view name) {
  for (const OpSchema& schema : schemas())
    if (name == schema.name) return &schema;
  return nullptr;
}

mkrt::Gate gate_of(OpKind kind) {
  return kind == OpKind::kSiluMul ? mkrt::Gate::kSilu : mkrt::Gate::kNone;
}

std::string_view role_name(std::string_view role) {
  if (role.ends_with('?')) role.remove_suffix(1);
  return role;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpSchema& schema : schemas()) names.push_back(schema.name);
  return names;
}

}  // namespace mkc
