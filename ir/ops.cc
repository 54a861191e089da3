#include "ir/ops.h"

namespace mkc {
namespace {

using enum OperandKind;

// The table is in the order of OpKind.
const std::vector<OpSchema>& schemas() {
  static const std::vector<OpSchema> table = {
      {OpKind::kEmbed,
       "embed",
       {"tokens", "table"},
       {"out"},
       {},
       {},
       {{kStep, "T"}, {kWeight, "VD"}},
       {{kValue, "TD"}}},
      {OpKind::kRmsNorm,
       "rms_norm",
       {"x", "weight"},
       {"out"},
       {},
       {"eps"},
       {{kValue, "TD"}, {kWeight, "D"}},
       {{kValue, "TD"}}},
      {OpKind::kLinear,
       "linear",
       {"x", "weight", "bias?"},
       {"out"},
       {},
       {},
       {{kValue, "TK"}, {kWeight, "NK"}, {kWeight, "N"}},
       {{kValue, "TN"}}},
      {OpKind::kHeadNorm,
       "head_norm",
       {"x", "weight"},
       {"out"},
       {"head_dim"},
       {"eps"},
       {{kValue, "TX"}, {kWeight, "h"}},
       {{kValue, "TX"}}},
      {OpKind::kRope,
       "rope",
       {"x", "positions", "table"},
       {"out"},
       {"head_dim"},
       {},
       {{kValue, "TX"}, {kStep, "T"}, {kTable, "Ch"}},
       {{kValue, "TX"}}},
      {OpKind::kKvWrite,
       "kv_write",
       {"k", "v", "positions"},
       {"k_cache", "v_cache"},
       {},
       {},
       {{kValue, "TE"}, {kValue, "TE"}, {kStep, "T"}},
       {{kCache, "BGCh"}, {kCache, "BGCh"}}},
      {OpKind::kAttention,
       "attention",
       {"q", "k_cache", "v_cache", "positions"},
       {"out"},
       {"head_dim", "heads", "kv_heads", "window"},
       {"scale"},
       {{kValue, "TQ"}, {kCache, "BGCh"}, {kCache, "BGCh"}, {kStep, "T"}},
       {{kValue, "TQ"}}},
      {OpKind::kAdd, "add", {"a", "b"}, {"out"}, {}, {}, {{kValue, "TD"}, {kValue, "TD"}}, {{kValue, "TD"}}},
      {OpKind::kSiluMul,
       "silu_mul",
       {"gate", "up"},
       {"out"},
       {},
       {},
       {{kValue, "TF"}, {kValue, "TF"}},
       {{kValue, "TF"}},
       mkrt::Gate::kSilu},
      {OpKind::kGeluMul,
       "gelu_mul",
       {"gate", "up"},
       {"out"},
       {},
       {},
       {{kValue, "TF"}, {kValue, "TF"}},
       {{kValue, "TF"}},
       mkrt::Gate::kGelu},
      {OpKind::kGeluTanhMul,
       "gelu_tanh_mul",
       {"gate", "up"},
       {"out"},
       {},
       {},
       {{kValue, "TF"}, {kValue, "TF"}},
       {{kValue, "TF"}},
       mkrt::Gate::kGeluTanh},
      {OpKind::kGatherRows, "gather_rows", {"x"}, {"out"}, {}, {}, {{kValue, "TD"}}, {{kValue, "RD"}}},
      {OpKind::kSample, "sample", {"logits"}, {"out"}, {}, {}, {{kValue, "RV"}}, {{kIndex, "B"}}},
      {OpKind::kRoute,
       "route",
       {"logits"},
       {"choice", "share"},
       {"norm_topk", "top_k"},
       {},
       {{kValue, "TX"}},
       {{kIndex, "Tk"}, {kValue, "Tk"}}},
      {OpKind::kExpertLinear,
       "expert_linear",
       {"x", "choice", "weight"},
       {"out"},
       {},
       {},
       {{kValue, "RK"}, {kIndex, "Tk"}, {kWeight, "XNK"}},
       {{kValue, "PN"}}},
      {OpKind::kExpertSum,
       "expert_sum",
       {"x", "share"},
       {"out"},
       {},
       {},
       {{kValue, "PD"}, {kValue, "Tk"}},
       {{kValue, "TD"}}},
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
  return op_schema(kind).gate;
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
