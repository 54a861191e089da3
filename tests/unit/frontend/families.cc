#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "tests/unit/frontend/fixtures.h"

using namespace mkc;
using namespace mkc::test;

namespace {

const char* const kRestOfLayer =
    "0 linear l0.attended l0.wo -> l0.o\n"
    "0 add x l0.o -> l0.y\n"
    "0 rms_norm l0.y l0.post_norm -> l0.g eps=1e-05\n"
    "0 linear l0.g l0.w_gate -> l0.gate\n"
    "0 linear l0.g l0.w_up -> l0.up\n"
    "0 silu_mul l0.gate l0.up -> l0.act\n"
    "0 linear l0.act l0.w_down -> l0.down\n"
    "0 add l0.y l0.down -> l0.x\n"
    "-1 gather_rows l0.x -> wanted\n"
    "-1 rms_norm wanted final_norm -> final eps=1e-05\n";
const std::string kUntiedHead = "-1 linear final lm_head -> logits\n-1 sample logits -> next\n";
const std::string kTiedHead = "-1 linear final embed -> logits\n-1 sample logits -> next\n";

const std::string kPlainAttention =
    "0 rope l0.q positions rope -> l0.q_roped head_dim=8\n"
    "0 rope l0.k positions rope -> l0.k_roped head_dim=8\n"
    "0 kv_write l0.k_roped l0.v positions -> l0.k_cache l0.v_cache\n"
    "0 attention l0.q_roped l0.k_cache l0.v_cache positions -> l0.attended"
    " head_dim=8 heads=4 kv_heads=2 scale=0.353553 window=0\n";
const std::string kPlainLayer =
    "-1 embed tokens embed -> x\n"
    "0 rms_norm x l0.input_norm -> l0.h eps=1e-05\n"
    "0 linear l0.h l0.wq -> l0.q\n"
    "0 linear l0.h l0.wk -> l0.k\n"
    "0 linear l0.h l0.wv -> l0.v\n" +
    kPlainAttention + kRestOfLayer;

}  // namespace

TEST_CASE("Llama becomes the ops of its definition") {
  CHECK(listing(valid_graph_of(llama_config())) == kPlainLayer + kUntiedHead);
}

TEST_CASE("tied embeddings serve as the head") {
  const std::string tied =
      edited(llama_config(), "\"hidden_act\"", "\"tie_word_embeddings\": true, \"hidden_act\"");
  CHECK(listing(valid_graph_of(tied)) == kPlainLayer + kTiedHead);
}

TEST_CASE("Mistral without a window has the ops of Llama") {
  CHECK(listing(valid_graph_of(mistral_config())) == kPlainLayer + kUntiedHead);
}

TEST_CASE("key/value heads of null are as many as the query's") {
  std::ifstream file(MKC_SOURCE_DIR "/tests/fixtures/models/gpt_oss/config.json");
  const std::string gpt_oss(std::istreambuf_iterator<char>(file), {});
  for (const std::string& config : {llama_config(), mistral_config(), mixtral_config(), gpt_oss}) {
    const auto with = [&](const char* value) {
      return listing(valid_graph_of(
          edited(config, "\"num_key_value_heads\": 2", fmt::format("\"num_key_value_heads\": {}", value))));
    };
    CHECK(with("null") == with("4"));
    CHECK(with("null") != with("2"));
  }
}

TEST_CASE("Qwen2 adds biases to q, k and v") {
  const std::string expected =
      "-1 embed tokens embed -> x\n"
      "0 rms_norm x l0.input_norm -> l0.h eps=1e-05\n"
      "0 linear l0.h l0.wq l0.bq -> l0.q\n"
      "0 linear l0.h l0.wk l0.bk -> l0.k\n"
      "0 linear l0.h l0.wv l0.bv -> l0.v\n" +
      kPlainAttention + kRestOfLayer + kUntiedHead;
  CHECK(listing(valid_graph_of(qwen2_config())) == expected);
}

TEST_CASE("biases of Llama and Qwen3 are on q, k, v and the output, those of Seed-OSS where it says") {
  const auto biases = [](const std::string& config) {
    std::vector<std::string> names;
    const OpGraph g = valid_graph_of(config);
    for (const Tensor& t : g.tensors)
      if (t.source.ends_with(".bias"))
        names.push_back(t.source.substr(t.source.rfind('.', t.source.size() - 6) + 1));
    return names;
  };
  const std::vector<std::string> qkv{"q_proj.bias", "k_proj.bias", "v_proj.bias"};
  std::vector<std::string> all = qkv;
  all.push_back("o_proj.bias");
  const std::string llama = llama_config(), key = "\"model_type\": \"llama\"";
  CHECK(biases(llama).empty());
  CHECK(biases(edited(llama, key, key + ", \"attention_bias\": true")) == all);
  const std::string seed =
      edited(edited(llama, "LlamaForCausalLM", "SeedOssForCausalLM"), key, "\"model_type\": \"seed_oss\"");
  CHECK(biases(seed) == qkv);
  // Its architecture says it, too.
  CHECK(biases(edited(seed, "  \"model_type\": \"seed_oss\",\n", "")) == qkv);
  CHECK(biases(edited(seed, "\"seed_oss\"", "\"seed_oss\", \"attention_bias\": false")).empty());
  CHECK(biases(edited(seed, "\"seed_oss\"", "\"seed_oss\", \"attention_out_bias\": true")) == all);
  const std::vector<std::string> of_mlp{"gate_proj.bias", "up_proj.bias", "down_proj.bias"};
  CHECK(biases(edited(llama, key, key + ", \"mlp_bias\": true")) == of_mlp);
  CHECK(biases(qwen3_config()).empty());
  CHECK(biases(edited(qwen3_config(), "\"qwen3\"", "\"qwen3\", \"attention_bias\": true")) == all);
}

TEST_CASE("Qwen3 norms the heads of q and k and takes head_dim from the config") {
  const std::string expected =
      "-1 embed tokens embed -> x\n"
      "0 rms_norm x l0.input_norm -> l0.h eps=1e-05\n"
      "0 linear l0.h l0.wq -> l0.q\n"
      "0 linear l0.h l0.wk -> l0.k\n"
      "0 linear l0.h l0.wv -> l0.v\n"
      "0 head_norm l0.q l0.q_norm -> l0.q_normed eps=1e-05 head_dim=16\n"
      "0 head_norm l0.k l0.k_norm -> l0.k_normed eps=1e-05 head_dim=16\n"
      "0 rope l0.q_normed positions rope -> l0.q_roped head_dim=16\n"
      "0 rope l0.k_normed positions rope -> l0.k_roped head_dim=16\n"
      "0 kv_write l0.k_roped l0.v positions -> l0.k_cache l0.v_cache\n"
      "0 attention l0.q_roped l0.k_cache l0.v_cache positions -> l0.attended"
      " head_dim=16 heads=4 kv_heads=2 scale=0.25 window=0\n" +
      std::string(kRestOfLayer) + kUntiedHead;
  const OpGraph g = valid_graph_of(qwen3_config());
  CHECK(listing(g) == expected);
  CHECK(tensor_of(g, "l0.wq").shape == std::vector<Expr>{64, 32});
}

TEST_CASE("symbols, inputs, outputs, caches and the rotary table are as agreed") {
  const OpGraph g = valid_graph_of(llama_config());
  const Expr requests = symbol(SymbolId{1});
  std::vector<std::string> names;
  std::vector<Bounds> bounds;
  for (const Symbol& s : g.symbols) {
    names.push_back(s.name);
    bounds.push_back(s.bounds);
    CHECK(s.length == (names.size() > 3 ? requests : Expr(0)));
  }
  CHECK(names == std::vector<std::string>{"T", "B", "R", "q_len", "kv_len", "first_row"});
  CHECK(bounds == std::vector<Bounds>{{1, 64}, {1, 16}, {1, 64}, {1, 64}, {1, 64}, {0, 63}});
  CHECK(g.symbols[SymbolId{5}].sums == SymbolId{3});
  CHECK(g.tensors[TensorId{0}].name == "tokens");
  CHECK(g.tensors[TensorId{1}].name == "positions");
  CHECK(g.tensors[TensorId{1}].dtype == DType::i32);
  CHECK(tensor_of(g, "l0.k_cache").shape == std::vector<Expr>{requests, 2, 64, 8});
  CHECK(tensor_of(g, "l0.k_cache").dtype == DType::bf16);
  CHECK(tensor_of(g, "rope").shape == std::vector<Expr>{64, 8});
  CHECK(tensor_of(g, "rope").kind == TensorKind::kTable);
  CHECK(tensor_of(g, "logits").kind == TensorKind::kOutput);
  CHECK(tensor_of(g, "logits").shape == std::vector<Expr>{symbol(SymbolId{2}), 100});
  CHECK(tensor_of(g, "next").kind == TensorKind::kOutput);
  CHECK(tensor_of(g, "next").dtype == DType::i32);
  CHECK(tensor_of(g, "l0.wk").source == "model.layers.0.self_attn.k_proj.weight");
  for (const Op& op : g.ops) CHECK(op.loc.known());
  for (const Tensor& t : g.tensors) CHECK(t.loc.file == "models/llama.yaml");
}

TEST_CASE("limits and the dtype of the cache are the options'") {
  ModelOptions options;
  options.max_tokens = 4;
  options.max_requests = 3;
  options.context = 24;
  options.kv_dtype = DType::f32;
  const auto g = graph_of(llama_config(), options);
  REQUIRE(g.ok());
  CHECK(g.value().symbols[SymbolId{0}].bounds == Bounds{1, 4});
  CHECK(g.value().symbols[SymbolId{1}].bounds == Bounds{1, 3});
  CHECK(g.value().symbols[SymbolId{4}].bounds == Bounds{1, 24});
  CHECK(tensor_of(g.value(), "l0.v_cache").shape == std::vector<Expr>{symbol(SymbolId{1}), 2, 24, 8});
  CHECK(tensor_of(g.value(), "l0.v_cache").dtype == DType::f32);
}

TEST_CASE("a cache of 8-bit floats has scales of the checkpoint, which may lack them") {
  ModelOptions options;
  options.kv_dtype = DType::e4m3;
  const auto g = graph_of(llama_config(), options);
  REQUIRE(g.ok());
  CHECK(tensor_of(g.value(), "l0.k_cache").source == "model.layers.0.self_attn.k_scale");
  CHECK(tensor_of(g.value(), "l0.v_cache").source == "model.layers.0.self_attn.v_scale");
  CHECK(tensor_of(valid_graph_of(llama_config()), "l0.k_cache").source == "");
  const auto with = [&](DType dtype, const std::vector<int64_t>& shape) {
    std::vector<CheckpointTensor> tensors = checkpoint_of(g.value());
    tensors.push_back({"model.layers.0.self_attn.k_scale", dtype, shape, "f"});
    return headline(graph_of(llama_config(), options, tensors));
  };
  CHECK(with(DType::f32, {}) == "");
  CHECK(with(DType::bf16, {2, 1, 1}) == "");
  CHECK(with(DType::bf16, {3}) ==
        "f: error: tensor \"model.layers.0.self_attn.k_scale\" is bf16 [3], expected 1 or 2 scales");
  CHECK(with(DType::i32, {2}) ==
        "f: error: tensor \"model.layers.0.self_attn.k_scale\" is i32 [2], expected 1 or 2 scales");
}

TEST_CASE("Mistral's sliding window reaches its attention") {
  const std::string windowed = edited(mistral_config(), "\"sliding_window\": null", "\"sliding_window\": 32");
  CHECK(listing(valid_graph_of(windowed)).find("scale=0.353553 window=32\n") != std::string::npos);
  // A key that is missing has the default of transformers, which null does not have.
  const std::string silent = edited(mistral_config(), "  \"sliding_window\": null,\n", "");
  CHECK(listing(valid_graph_of(silent)).find("scale=0.353553 window=4096\n") != std::string::npos);
}
