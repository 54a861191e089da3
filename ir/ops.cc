#include "ir/ops.h"

namespace mkc {
namespace {

using enum OperandKind;
using mkrt::Activation;
using mkrt::RowStep;

// Each op has its one definition here. The rows are in the order of OpKind. Pair p of the T * k pairs of rows
// is token p / k and its choice p mod k.
const std::vector<OpSchema>& schemas() {
  static const std::vector<OpSchema> table = {
      {.kind = OpKind::kEmbed,
       .name = "embed",
       .inputs = {{"tokens", {kStep, "T"}}, {"table", {kWeight, "VD"}}},
       .outputs = {{"out", {kValue, "TD"}}}},
      {.kind = OpKind::kRmsNorm,
       .name = "rms_norm",
       .inputs = {{"x", {kValue, "AD"}}, {"weight", {kWeight, "D"}}},
       .outputs = {{"out", {kValue, "AD"}}},
       .float_attrs = {"eps"}},
      {.kind = OpKind::kLinear,
       .name = "linear",
       .inputs = {{"x", {kValue, "AK"}}, {"weight", {kWeight, "NK"}}, {"bias?", {kWeight, "N"}}},
       .outputs = {{"out", {kValue, "AN"}}}},
      {.kind = OpKind::kHeadNorm,
       .name = "head_norm",
       .inputs = {{"x", {kValue, "TX"}}, {"weight", {kWeight, "h"}}},
       .outputs = {{"out", {kValue, "TX"}}},
       .int_attrs = {"head_dim"},
       .float_attrs = {"eps"}},
      // A row of the table is h / 2 cosines, then h / 2 sines. The halves of a head are rotated together, as
      // in the HF form of Llama.
      {.kind = OpKind::kRope,
       .name = "rope",
       .inputs = {{"x", {kValue, "TX"}}, {"positions", {kStep, "T"}}, {"table", {kTable, "Ch"}}},
       .outputs = {{"out", {kValue, "TX"}}},
       .int_attrs = {"head_dim"}},
      {.kind = OpKind::kKvWrite,
       .name = "kv_write",
       .inputs = {{"k", {kValue, "TE"}}, {"v", {kValue, "TE"}}, {"positions", {kStep, "T"}}},
       .outputs = {{"k_cache", {kCache, "BGCh"}}, {"v_cache", {kCache, "BGCh"}}}},
      // A window of 0 means all earlier positions. A sink is a further score of each row of a head. A sink
      // has a share of the softmax, and no value.
      {.kind = OpKind::kAttention,
       .name = "attention",
       .inputs = {{"q", {kValue, "TQ"}},
                  {"k_cache", {kCache, "BGCh"}},
                  {"v_cache", {kCache, "BGCh"}},
                  {"positions", {kStep, "T"}},
                  {"sinks?", {kWeight, "H"}}},
       .outputs = {{"out", {kValue, "TQ"}}},
       .int_attrs = {"head_dim", "heads", "kv_heads", "window"},
       .float_attrs = {"scale"}},
      // The op subtracts the mean of a row and divides by its standard deviation.
      {.kind = OpKind::kLayerNorm,
       .name = "layer_norm",
       .inputs = {{"x", {kValue, "XD"}}, {"weight", {kWeight, "D"}}, {"bias?", {kWeight, "D"}}},
       .outputs = {{"out", {kValue, "XD"}}},
       .float_attrs = {"eps"}},
      {.kind = OpKind::kAdd,
       .name = "add",
       .inputs = {{"a", {kValue, "XD"}}, {"b", {kValue, "XD"}}},
       .outputs = {{"out", {kValue, "XD"}}},
       .row_steps = {RowStep::kAdd}},
      {.kind = OpKind::kMul,
       .name = "mul",
       .inputs = {{"a", {kValue, "XD"}}, {"b", {kValue, "XD"}}},
       .outputs = {{"out", {kValue, "XD"}}},
       .row_steps = {RowStep::kMul}},
      {.kind = OpKind::kScale,
       .name = "scale",
       .inputs = {{"x", {kValue, "XD"}}},
       .outputs = {{"out", {kValue, "XD"}}},
       .float_attrs = {"by"},
       .row_steps = {RowStep::kScale}},
      {.kind = OpKind::kSilu,
       .name = "silu",
       .inputs = {{"x", {kValue, "XD"}}},
       .outputs = {{"out", {kValue, "XD"}}},
       .row_steps = {step_of(Activation::kSilu)}},
      {.kind = OpKind::kGelu,
       .name = "gelu",
       .inputs = {{"x", {kValue, "XD"}}},
       .outputs = {{"out", {kValue, "XD"}}},
       .row_steps = {step_of(Activation::kGelu)}},
      {.kind = OpKind::kGeluTanh,
       .name = "gelu_tanh",
       .inputs = {{"x", {kValue, "XD"}}},
       .outputs = {{"out", {kValue, "XD"}}},
       .row_steps = {step_of(Activation::kGeluTanh)}},
      {.kind = OpKind::kSigmoid,
       .name = "sigmoid",
       .inputs = {{"x", {kValue, "XD"}}},
       .outputs = {{"out", {kValue, "XD"}}},
       .row_steps = {step_of(Activation::kSigmoid)}},
      {.kind = OpKind::kClamp,
       .name = "clamp",
       .inputs = {{"x", {kValue, "XD"}}},
       .outputs = {{"out", {kValue, "XD"}}},
       .float_attrs = {"max", "min"},
       .row_steps = {RowStep::kMin, RowStep::kMax}},
      // The result is cap * tanh(x / cap).
      {.kind = OpKind::kSoftCap,
       .name = "soft_cap",
       .inputs = {{"x", {kValue, "XD"}}},
       .outputs = {{"out", {kValue, "XD"}}},
       .float_attrs = {"cap"},
       .row_steps = {RowStep::kSoftCap}},
      // A gated op multiplies an activation of `gate` with `up` (gate_of).
      {.kind = OpKind::kSiluMul,
       .name = "silu_mul",
       .inputs = {{"gate", {kValue, "XF"}}, {"up", {kValue, "XF"}}},
       .outputs = {{"out", {kValue, "XF"}}},
       .row_steps = {step_of(Activation::kSilu), RowStep::kMul}},
      {.kind = OpKind::kGeluMul,
       .name = "gelu_mul",
       .inputs = {{"gate", {kValue, "XF"}}, {"up", {kValue, "XF"}}},
       .outputs = {{"out", {kValue, "XF"}}},
       .row_steps = {step_of(Activation::kGelu), RowStep::kMul}},
      {.kind = OpKind::kGeluTanhMul,
       .name = "gelu_tanh_mul",
       .inputs = {{"gate", {kValue, "XF"}}, {"up", {kValue, "XF"}}},
       .outputs = {{"out", {kValue, "XF"}}},
       .row_steps = {step_of(Activation::kGeluTanh), RowStep::kMul}},
      {.kind = OpKind::kSwigluOai,
       .name = "swiglu_oai",
       .inputs = {{"gate", {kValue, "XF"}}, {"up", {kValue, "XF"}}},
       .outputs = {{"out", {kValue, "XF"}}},
       .row_steps = {step_of(Activation::kSwigluOai), RowStep::kMulOai}},
      // The op picks the rows for which logits are wanted.
      {.kind = OpKind::kGatherRows,
       .name = "gather_rows",
       .inputs = {{"x", {kValue, "TD"}}},
       .outputs = {{"out", {kValue, "RD"}}}},
      // The op picks a token for each request from its last row (docs/sampling.md).
      {.kind = OpKind::kSample,
       .name = "sample",
       .inputs = {{"logits", {kValue, "RV"}}},
       .outputs = {{"out", {kIndex, "B"}}}},
      // The op chooses the k greatest entries of a softmax, greatest first. Ties go to the lowest expert. The
      // routing weights are the probabilities of the chosen experts. norm_topk scales them to a sum
      // of 1.
      {.kind = OpKind::kRoute,
       .name = "route",
       .inputs = {{"logits", {kValue, "TX"}}},
       .outputs = {{"choice", {kIndex, "Tk"}}, {"routing_weight", {kValue, "Tk"}}},
       .int_attrs = {"norm_topk", "top_k"}},
      // The op multiplies each pair's row with the weight of the pair's expert, and adds the expert's bias.
      {.kind = OpKind::kExpertLinear,
       .name = "expert_linear",
       .inputs = {{"x", {kValue, "YK"}},
                  {"choice", {kIndex, "Tk"}},
                  {"weight", {kWeight, "XNK"}},
                  {"bias?", {kWeight, "XN"}}},
       .outputs = {{"out", {kValue, "PN"}}}},
      // The op adds the results of a token in the order of its choices.
      {.kind = OpKind::kExpertSum,
       .name = "expert_sum",
       .inputs = {{"x", {kValue, "PD"}}, {"routing_weight", {kValue, "Tk"}}},
       .outputs = {{"out", {kValue, "TD"}}}},
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

mkrt::Activation gate_of(OpKind kind) {
  const std::vector<RowStep>& steps = op_schema(kind).row_steps;
  const bool gated = steps.size() == 2 && is_activation(steps[0]) &&
                     (steps[1] == RowStep::kMul || steps[1] == RowStep::kMulOai);
  return gated ? static_cast<Activation>(steps[0]) : Activation::kNone;
}

std::string_view role_name(std::string_view role) {
  if (role.ends_with('?')) role.remove_suffix(1);
  return role;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpSchema& schema : schemas()) names.emplace_back(schema.name);
  return names;
}

}  // namespace mkc
