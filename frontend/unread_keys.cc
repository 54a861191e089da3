#include "frontend/unread_keys.h"

#include <fmt/format.h>

#include <algorithm>

namespace mkc {
namespace {

// UnreadKey is a key of config.json with the value, besides null, that leaves the computation unchanged.
struct UnreadKey {
  const char* key;
  Node neutral;
};

// Returns keys of published configs, grouped by what they change.
std::vector<UnreadKey> unread_keys() {
  const Node on = bool_node(true), off = bool_node(false), none = null_node(), zero = int_node(0),
             one = int_node(1);
  return {
      // These keys change scores and logits.
      {"attn_logit_softcapping", zero},
      {"final_logit_softcapping", zero},
      {"logit_scale", one},
      {"logits_scaling", one},
      {"attention_multiplier", none},
      {"query_pre_attn_scalar", none},
      {"attn_temperature_tuning", off},
      {"attention_chunk_size", none},
      {"use_attention_sinks", off},
      {"is_causal", on},
      {"use_bidirectional_attention", off},
      {"alibi", off},
      {"use_alibi", off},
      {"clip_qkv", none},
      // Positions.
      {"rope_interleaved", off},
      {"rope_interleave", off},
      {"use_mrope", off},
      {"mrope_section", none},
      {"rotary_pct", one},
      {"rope_local_base_freq", none},
      {"no_rope_layers", none},
      {"no_rope_layer_interval", none},
      {"sliding_window_pattern", none},
      // These keys change norms, biases and activations.
      {"use_qk_norm", off},
      {"qk_layernorm", off},
      {"qk_norm", off},
      {"qkv_bias", off},
      {"use_bias", off},
      {"hidden_activation", string_node("silu")},
      {"use_parallel_residual", off},
      {"parallel_attn", off},
      // Scales of embeddings and residuals.
      {"embedding_multiplier", one},
      {"residual_multiplier", one},
      {"scale_emb", one},
      {"scale_depth", none},
      {"dim_model_base", none},
      // Experts.
      {"n_shared_experts", zero},
      {"shared_expert_intermediate_size", zero},
      {"routed_scaling_factor", one},
      {"scoring_func", string_node("softmax")},
      {"first_k_dense_replace", zero},
      {"n_group", one},
      {"topk_group", one},
      // Layers that differ from the config, and weights in another file than model.safetensors.
      {"per_layer_config", none},
      {"transformers_weights", none},
  };
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Tells whether the family's file mentions the key: as "config.KEY" anywhere in its text, or as a key of
// `only`.
bool reads(const Family& family, std::string_view key) {
  if (std::any_of(family.only.begin(), family.only.end(), [&](const OnlyDecl& o) { return o.key == key; }))
    return true;
  const std::string& text = family.document.source.text;
  const std::string mention = "config." + std::string(key);
  for (size_t at = text.find(mention); at != text.npos; at = text.find(mention, at + 1))
    if (at + mention.size() == text.size() || !is_letter(text[at + mention.size()])) return true;
  return false;
}

}  // namespace

Status check_unread_keys(const Family& family, const Document& config) {
  for (const UnreadKey& unread : unread_keys()) {
    const Node value = config_value(config, unread.key);
    if (value.is(Node::Kind::kNull) || value == unread.neutral || reads(family, unread.key)) continue;
    return config.error(value.place,
                        fmt::format("{} is {}: the {} family does not read it, and it would change "
                                    "the computation",
                                    unread.key, describe(value), family.name));
  }
  return {};
}

}  // namespace mkc
