#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <utility>

#include "tests/reference/model.h"
#include "tests/reference/rounding.h"
#include "tests/reference/stacked.h"

namespace reference {
namespace {

using nlohmann::json;

struct Entry {
  std::string name;
  std::vector<int> shape;
};

Coder coder_of(const Shape& s) {
  return {s.coding, s.type, s.code_group, s.code_bits, s.code_zeros};
}

// Returns whether the entry is a product's weight in a layer, which the checkpoint has as codes.
bool is_coded(const Shape& s, const Entry& e) {
  if (s.family == "gpt_oss") return s.coding != Coding::kNone && e.shape.size() == 3;
  const bool router = e.name.ends_with("mlp.gate.weight") || e.name.ends_with("moe.gate.weight");
  return s.coding != Coding::kNone && e.name.starts_with("model.layers.") && e.shape.size() == 2 && !router &&
         e.name.ends_with(".weight") && !(s.plain_gates && e.name.ends_with("gate_proj.weight"));
}

// Returns every tensor of the model's checkpoint.
std::vector<Entry> entries_of(const Shape& s) {
  const int q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  std::vector<Entry> out{{"model.embed_tokens.weight", {s.vocab, s.hidden}},
                         {"model.norm.weight", {s.hidden}}};
  if (!s.tied) out.push_back({"lm_head.weight", {s.vocab, s.hidden}});
  for (int layer = 0; layer < s.layers; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    const auto add = [&](const std::string& name, std::vector<int> shape) {
      out.push_back({at + name, std::move(shape)});
    };
    add("input_layernorm.weight", {s.hidden});
    add("post_attention_layernorm.weight", {s.hidden});
    add("self_attn.q_proj.weight", {q, s.hidden});
    add("self_attn.k_proj.weight", {kv, s.hidden});
    add("self_attn.v_proj.weight", {kv, s.hidden});
    add("self_attn.o_proj.weight", {s.hidden, q});
    if (s.family == "gpt_oss") {
      if (s.attention_bias) {
        add("self_attn.q_proj.bias", {q});
        add("self_attn.k_proj.bias", {kv});
        add("self_attn.v_proj.bias", {kv});
        add("self_attn.o_proj.bias", {s.hidden});
      }
      add("self_attn.sinks", {s.heads});
      add("mlp.router.weight", {s.experts, s.hidden});
      add("mlp.router.bias", {s.experts});
      add("mlp.experts.gate_up_proj", {s.experts, s.hidden, 2 * s.ffn});
      add("mlp.experts.gate_up_proj_bias", {s.experts, 2 * s.ffn});
      add("mlp.experts.down_proj", {s.experts, s.ffn, s.hidden});
      add("mlp.experts.down_proj_bias", {s.experts, s.hidden});
    } else if (has_experts(s, layer)) {
      const bool mixtral = s.family == "mixtral";
      const std::string block = mixtral ? "block_sparse_moe." : "mlp.";
      const int ffn = mixtral ? s.ffn : s.expert_ffn;
      add(block + "gate.weight", {s.experts, s.hidden});
      for (int e = 0; e < s.experts; ++e) {
        const std::string expert = block + "experts." + std::to_string(e) + ".";
        add(expert + (mixtral ? "w1.weight" : "gate_proj.weight"), {ffn, s.hidden});
        add(expert + (mixtral ? "w3.weight" : "up_proj.weight"), {ffn, s.hidden});
        add(expert + (mixtral ? "w2.weight" : "down_proj.weight"), {s.hidden, ffn});
      }
    } else {
      add("mlp.gate_proj.weight", {s.ffn, s.hidden});
      add("mlp.up_proj.weight", {s.ffn, s.hidden});
      add("mlp.down_proj.weight", {s.hidden, s.ffn});
    }
    if (s.e4m3_cache) {
      add("self_attn.k_scale", {1});
      add("self_attn.v_scale", {s.kv_heads});
    }
    if (s.family == "qwen2") {
      add("self_attn.q_proj.bias", {q});
      add("self_attn.k_proj.bias", {kv});
      add("self_attn.v_proj.bias", {kv});
    }
    if (s.family.starts_with("qwen3")) {
      add("self_attn.q_norm.weight", {s.head_dim});
      add("self_attn.k_norm.weight", {s.head_dim});
    }
  }
  return out;
}

const char* stored_name(Type t) {
  return t == Type::kF32 ? "F32" : t == Type::kF16 ? "F16" : "BF16";
}

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append_value(std::string& bytes, double value, Type t) {
  if (t == Type::kF32) append(bytes, static_cast<float>(value));
  if (t == Type::kF16) append(bytes, static_cast<_Float16>(value));
  if (t == Type::kBf16) append(bytes, bf16_bits(value));
}

// Returns the tensors of an entry as the checkpoint stores them.
std::vector<Coder::Tensor> tensors_of(const Model& m, const Entry& e) {
  const std::vector<double>& w = m.weights.at(e.name);
  if (is_coded(m.shape, e) && e.shape.size() == 3)
    return stacked_tensors(coder_of(m.shape), e.name, w, m.scales.at(e.name), e.shape);
  if (is_coded(m.shape, e))
    return coder_of(m.shape).tensors(e.name, w, m.scales.at(e.name), e.shape[0], e.shape[1]);
  std::string bytes;
  for (const double value : w) append_value(bytes, value, m.shape.type);
  return {{e.name, stored_name(m.shape.type), e.shape, bytes}};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  REQUIRE(out.good());
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in.good(), path);
  return {std::istreambuf_iterator<char>(in), {}};
}

json config_of(const Shape& s) {
  static const std::map<std::string, std::string> kNames = {
      {"llama", "Llama"},        {"qwen2", "Qwen2"},     {"qwen3", "Qwen3"},   {"mistral", "Mistral"},
      {"qwen3_moe", "Qwen3Moe"}, {"mixtral", "Mixtral"}, {"gpt_oss", "GptOss"}};
  json c{{"architectures", {kNames.at(s.family) + "ForCausalLM"}},
         {"model_type", s.family},
         {"hidden_act", s.act},
         {"hidden_size", s.hidden},
         {"intermediate_size", s.ffn},
         {"max_position_embeddings", s.context},
         {"num_attention_heads", s.heads},
         {"num_key_value_heads", s.kv_heads},
         {"num_hidden_layers", s.layers},
         {"rms_norm_eps", s.eps},
         {"rope_theta", s.rope_theta},
         {"tie_word_embeddings", s.tied},
         {"torch_dtype", type_name(s.type)},
         {"vocab_size", s.vocab}};
  if (s.head_dim * s.heads != s.hidden || s.family.starts_with("qwen3") || s.family == "gpt_oss")
    c["head_dim"] = s.head_dim;
  if (s.llama3_rope)
    c["rope_scaling"] = {{"rope_type", "llama3"},
                         {"factor", 8.0},
                         {"low_freq_factor", 1.0},
                         {"high_freq_factor", 4.0},
                         {"original_max_position_embeddings", 64}};
  if (s.family == "mistral" || s.family == "mixtral")
    c["sliding_window"] = s.window == 0 ? json() : json(s.window);
  if (s.family.starts_with("qwen") && s.window != 0) {
    c["use_sliding_window"] = true;
    c["sliding_window"] = s.window;
    c["max_window_layers"] = s.window_from;
  }
  if (s.family == "gpt_oss") {
    c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", s.rope_theta}};
    if (s.yarn_rope)
      c["rope_parameters"] = {{"rope_type", "yarn"},
                              {"rope_theta", s.rope_theta},
                              {"factor", 4.0},
                              {"beta_fast", 32.0},
                              {"beta_slow", 1.0},
                              {"original_max_position_embeddings", 32},
                              {"truncate", s.yarn_truncate}};
    c["sliding_window"] = s.window == 0 ? json() : json(s.window);
    c["attention_bias"] = s.attention_bias;
    // Layers 0, 2, … have the window where the config does not say which.
    for (int layer = 0; (s.window_from != 0 || s.window == 0) && layer < s.layers; ++layer)
      c["layer_types"].push_back(s.window != 0 && is_windowed(s, layer) ? "sliding_attention"
                                                                        : "full_attention");
  }
  if (s.experts > 0) {
    c[s.family != "qwen3_moe" ? "num_local_experts" : "num_experts"] = s.experts;
    c["num_experts_per_tok"] = s.top_k;
  }
  if (s.coding != Coding::kNone)
    c["quantization_config"] =
        s.family == "gpt_oss" ? json{{"quant_method", "mxfp4"}} : json::parse(coder_of(s).config());
  if (s.family == "qwen3_moe") {
    c["moe_intermediate_size"] = s.expert_ffn;
    c["norm_topk_prob"] = s.norm_top_k;
    c["decoder_sparse_step"] = s.sparse_step;
    c["mlp_only_layers"] = s.dense_layers;
  }
  return c;
}

void write_shard(const Model& m, const std::vector<Entry>& entries, const std::string& path) {
  json header;
  std::string data;
  for (const Entry& e : entries)
    for (const Coder::Tensor& t : tensors_of(m, e)) {
      header[t.name] = {{"dtype", t.type},
                        {"shape", t.shape},
                        {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
      data += t.bytes;
    }
  std::string text = header.dump(), bytes;
  text.resize((text.size() + 7) / 8 * 8, ' ');
  append(bytes, static_cast<uint64_t>(text.size()));
  write_file(path, bytes + text + data);
}

Shape shape_of(const json& c) {
  Shape s;
  s.family = c["model_type"];
  s.hidden = c["hidden_size"];
  s.ffn = c["intermediate_size"];
  s.context = c["max_position_embeddings"];
  s.heads = c["num_attention_heads"];
  s.kv_heads = c["num_key_value_heads"];
  s.layers = c["num_hidden_layers"];
  s.head_dim =
      c.contains("head_dim") && !c["head_dim"].is_null() ? c["head_dim"].get<int>() : s.hidden / s.heads;
  s.vocab = c["vocab_size"];
  s.tied = c["tie_word_embeddings"];
  s.eps = c["rms_norm_eps"];
  if (c.contains("sliding_window") && !c["sliding_window"].is_null()) s.window = c["sliding_window"];
  s.attention_bias = c.value("attention_bias", s.attention_bias);
  if (s.family == "gpt_oss" && c.contains("layer_types"))
    s.window_from = c["layer_types"][0] == "sliding_attention" ? 0 : 1;
  // transformers 5 names Qwen3-MoE's experts as Mixtral's are.
  s.experts = c.value("num_experts", c.value("num_local_experts", 0));
  s.top_k = c.value("num_experts_per_tok", s.top_k);
  s.expert_ffn = c.value("moe_intermediate_size", s.expert_ffn);
  s.norm_top_k = c.value("norm_topk_prob", s.norm_top_k);
  s.sparse_step = c.value("decoder_sparse_step", s.sparse_step);
  s.dense_layers = c.value("mlp_only_layers", s.dense_layers);
  // transformers 5 keeps all of RoPE in rope_parameters.
  const json rope = c.value("rope_parameters", json::object());
  s.rope_theta = rope.contains("rope_theta") ? rope["rope_theta"] : c["rope_theta"];
  s.llama3_rope = rope.value("rope_type", "default") == "llama3";
  s.yarn_rope = rope.value("rope_type", "default") == "yarn";
  s.yarn_truncate = rope.value("truncate", true);
  const std::string type = c.contains("dtype") ? c["dtype"] : c["torch_dtype"];
  s.type = type == "float32" ? Type::kF32 : type == "float16" ? Type::kF16 : Type::kBf16;
  return s;
}

// Most routers have no bias, so this function gives all tokens a common one. The first hidden value is 2 in
// every embedding. No layer adds to it, and routers read it.
void add_pull(Model& m, const std::vector<double>& pull) {
  const auto set_all = [](std::vector<double>& w, size_t begin, size_t step, size_t count, double value) {
    for (size_t i = 0; i < count; ++i) w[begin + i * step] = value;
  };
  const auto hidden = static_cast<size_t>(m.shape.hidden);
  for (auto& [name, w] : m.weights) {
    if (name.ends_with("mlp.router.bias"))
      for (size_t e = 0; e < pull.size(); ++e) w[e] = 2 * pull[e];
    if (name.ends_with("embed_tokens.weight")) set_all(w, 0, hidden, w.size() / hidden, 2);
    if (name.ends_with("post_attention_layernorm.weight")) w[0] = 1;
    if (name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight") || name.ends_with("w2.weight"))
      set_all(w, 0, 1, w.size() / hidden, 0);
    if (!name.ends_with("mlp.gate.weight") && !name.ends_with("moe.gate.weight")) continue;
    for (size_t e = 0; e < pull.size(); ++e) w[e * hidden] = pull[e];
  }
}

}  // namespace

const char* type_name(Type t) {
  return t == Type::kF32 ? "float32" : t == Type::kF16 ? "float16" : "bfloat16";
}

namespace {

// Normal draws normally distributed numbers by the polar method (Marsaglia and Bray 1964).
// std::normal_distribution takes a logarithm of a long double for each uniform number.
class Normal {
 public:
  explicit Normal(uint64_t seed) : random_(seed) {}
  double operator()() {
    if (std::optional<double> kept = std::exchange(kept_, std::nullopt)) return *kept;
    double x = 0, y = 0, squares = 0;
    do {
      x = uniform(), y = uniform();
      squares = x * x + y * y;
    } while (squares > 1 || squares == 0);
    const double scale = std::sqrt(-2 * std::log(squares) / squares);
    kept_ = x * scale;
    return y * scale;
  }

 private:
  double uniform() { return 2 * (static_cast<double>(random_()) * 0x1p-64) - 1; }
  std::mt19937_64 random_;
  std::optional<double> kept_;
};

}  // namespace

Model random_model(const Shape& shape, uint64_t seed, const std::vector<double>& pull) {
  Model m{shape, {}};
  Normal normal(seed);
  for (const Entry& e : entries_of(shape)) {
    std::vector<double>& w = m.weights[e.name];
    size_t count = 1;
    for (const int size : e.shape) count *= static_cast<size_t>(size);
    const bool norm = e.name.ends_with("norm.weight");
    // Sinks take a share of the softmax, and biases of gates reach the clamp.
    const double scale = e.name.ends_with("sinks")               ? shape.sink_spread
                         : e.name.ends_with("gate_up_proj_bias") ? shape.gate_bias_spread
                         : norm || e.shape.size() == 1 ? 0.1
                                                       : 1.5 / std::sqrt(static_cast<double>(e.shape[1]));
    for (size_t i = 0; i < count; ++i) w.push_back(rounded((norm ? 1 : 0) + scale * normal(), shape.type));
    if (is_coded(shape, e) && e.shape.size() == 3)
      m.scales[e.name] = round_stacked(coder_of(shape), w, e.shape);
    else if (is_coded(shape, e))
      m.scales[e.name] = coder_of(shape).round(w, e.shape[0], e.shape[1]);
    if (e.name.ends_with("_scale"))
      for (double& v : w) v = rounded(0.003 + std::abs(v) / 10, shape.type);
  }
  if (!pull.empty()) add_pull(m, pull);
  return m;
}

void write_checkpoint(const Model& m, const std::string& directory, int shards) {
  write_file(directory + "/config.json", config_of(m.shape).dump(2));
  const std::vector<Entry> entries = entries_of(m.shape);
  if (shards == 1) return write_shard(m, entries, directory + "/model.safetensors");
  json index;
  for (int i = 0; i < shards; ++i) {
    const std::string name =
        "model-" + std::to_string(i + 1) + "-of-" + std::to_string(shards) + ".safetensors";
    std::vector<Entry> part;
    for (size_t e = static_cast<size_t>(i); e < entries.size(); e += static_cast<size_t>(shards)) {
      part.push_back(entries[e]);
      for (const Coder::Tensor& t : tensors_of(m, entries[e])) index["weight_map"][t.name] = name;
    }
    write_shard(m, part, directory + "/" + name);
  }
  write_file(directory + "/model.safetensors.index.json", index.dump());
}

Model read_checkpoint(const std::string& directory) {
  Model m{shape_of(json::parse(read_file(directory + "/config.json"))), {}};
  const std::string bytes = read_file(directory + "/model.safetensors");
  uint64_t header_bytes;
  std::memcpy(&header_bytes, bytes.data(), 8);
  const json header = json::parse(bytes.substr(8, header_bytes));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string type = entry["dtype"];
    const size_t begin = 8 + header_bytes + entry["data_offsets"][0].get<size_t>();
    const size_t end = 8 + header_bytes + entry["data_offsets"][1].get<size_t>();
    std::vector<double>& w = m.weights[name];
    for (size_t at = begin; at < end; at += type == "F32" ? 4 : 2) {
      if (type == "F32") {
        float v;
        std::memcpy(&v, bytes.data() + at, 4);
        w.push_back(static_cast<double>(v));
      } else {
        uint16_t half;
        std::memcpy(&half, bytes.data() + at, 2);
        const uint32_t wide = static_cast<uint32_t>(half) << 16;
        float v;
        std::memcpy(&v, &wide, 4);
        REQUIRE(type == "BF16");
        w.push_back(static_cast<double>(v));
      }
    }
  }
  return m;
}

}  // namespace reference
