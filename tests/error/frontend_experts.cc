#include <doctest/doctest.h>

#include <algorithm>

#include "frontend/yaml.h"
#include "tests/unit/frontend/fixtures.h"

using namespace mkc;
using namespace mkc::test;

namespace {

// Returns the error for the Qwen3-MoE config with one place of its text changed.
std::string changed(const std::string& from, const std::string& to) {
  return headline(graph_of(edited(qwen3_moe_config(), from, to)));
}

const std::string kFile = "DIR/config.json";

// Returns the error for a Qwen3-MoE checkpoint whose up projection of one expert is edited.
std::string with_expert(int expert, void (*edit)(CheckpointTensor&),
                        const std::string& config = qwen3_moe_config()) {
  auto graph = graph_of(config);
  REQUIRE(graph.ok());
  auto tensors = checkpoint_of(graph.value());
  const std::string name = "model.layers.0.mlp.experts." + std::to_string(expert) + ".up_proj.weight";
  edit(*std::find_if(tensors.begin(), tensors.end(), [&](auto& t) { return t.name == name; }));
  return headline(graph_of(config, {}, tensors));
}

}  // namespace

TEST_CASE("an error names no default that stands behind a key that is there") {
  const auto rename = [](CheckpointTensor& tensor) { tensor.name += "s"; };
  const std::string other = edited(qwen3_moe_config(), "\"num_experts\"", "\"num_local_experts\"");
  CHECK(with_expert(1, rename, other).find("with defaults") == std::string::npos);
}

TEST_CASE("absurd and mistyped values of experts are refused at their key") {
  CHECK(changed("\"num_experts\": 4", "\"num_experts\": 0") ==
        kFile + ":14:3: error: num_experts is 0, expected at least 1");
  CHECK(changed("\"num_experts\": 4", "\"num_experts\": 513") ==
        kFile + ":14:3: error: num_experts is 513, expected at most 512");
  CHECK(
      changed("\"num_experts\": 4,\n  \"num_experts_per_tok\": 2", "\"num_experts\": 4") ==
      kFile +
          ": error: num_experts_per_tok is 8, expected at most the 4 experts there are; the key is missing, "
          "and 8 is its default");
  CHECK(changed("\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 5") ==
        kFile + ":15:3: error: num_experts_per_tok is 5, expected at most the 4 experts there are");
  CHECK(changed("\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 17") ==
        kFile + ":15:3: error: num_experts_per_tok is 17, expected at most 16");
  CHECK(changed("\"moe_intermediate_size\": 24", "\"moe_intermediate_size\": 2.5") ==
        kFile + ":16:3: error: moe_intermediate_size is 2.5, expected an int");
  CHECK(changed("\"norm_topk_prob\": false", "\"norm_topk_prob\": 1") ==
        kFile + ":17:3: error: norm_topk_prob is 1, expected a bool");
  CHECK(changed("\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 0") ==
        kFile + ":18:3: error: decoder_sparse_step is 0, expected at least 1");
  CHECK(changed("\"mlp_only_layers\": []", "\"mlp_only_layers\": 3") ==
        kFile + ":19:3: error: mlp_only_layers is 3, expected a list");
  CHECK(changed("\"mlp_only_layers\": []", "\"mlp_only_layers\": [0, \"3\"]") ==
        kFile + ":19:3: error: mlp_only_layers holds \"3\", expected an int");
  CHECK(changed("\"mlp_only_layers\": []", "\"mlp_only_layers\": [-1]") ==
        kFile + ":19:3: error: mlp_only_layers holds -1, expected at least 0");
  CHECK(headline(
            graph_of(edited(mixtral_config(), "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 4"))) ==
        kFile + ":14:3: error: num_experts_per_tok is 4, expected at most num_local_experts 3");
}

TEST_CASE("a missing, misshapen or mistyped tensor of one expert is named") {
  CHECK(with_expert(2, [](CheckpointTensor& t) { t.name = "model.layers.0.mlp.experts.7.up_proj.weight"; }) ==
        "DIR: error: missing tensor \"model.layers.0.mlp.experts.2.up_proj.weight\" [24, 32], needed by "
        "models/qwen3_moe.yaml:96:5, did you mean \"model.layers.0.mlp.experts.7.up_proj.weight\"?");
  CHECK(
      with_expert(3, [](CheckpointTensor& t) { t.shape = {24, 31}; }) ==
      "model.safetensors: error: tensor \"model.layers.0.mlp.experts.3.up_proj.weight\" has shape [24, 31], "
      "expected [24, 32]");
  CHECK(with_expert(0, [](CheckpointTensor& t) { t.dtype = DType::f16; }) ==
        "model.safetensors: error: tensor \"model.layers.0.mlp.experts.0.up_proj.weight\" is f16, expected "
        "bf16 "
        "as \"model.embed_tokens.weight\"");
}

TEST_CASE("a family's stacked weight has both a stack and the expert's place in its name") {
  const auto mixtral = read_source(MKC_SOURCE_DIR "/models/mixtral.yaml");
  REQUIRE(mixtral.ok());
  const auto error_of = [&](const std::string& from, const std::string& to) {
    const auto document = parse_yaml({"f.yaml", edited(mixtral.value().text, from, to)});
    REQUIRE(document.ok());
    return headline(read_family(document.value()));
  };
  CHECK(error_of("w2.weight\", stack: experts,", "w2.weight\",") ==
        "f.yaml:82:25: error: weight e_down has {e} without a stack");
  CHECK(error_of("{e}.w2.weight\"", "0.w2.weight\"") ==
        "f.yaml:82:25: error: weight e_down has a stack without {e}");
}

TEST_CASE("a family's layers and sizes have bounds") {
  const auto qwen3 = read_source(MKC_SOURCE_DIR "/models/qwen3.yaml");
  REQUIRE(qwen3.ok());
  const auto error_of = [&](const std::string& from, const std::string& to) {
    const TempDir dir;
    ModelOptions options;
    options.family = dir.write("f.yaml", edited(qwen3.value().text, from, to));
    return headline(graph_of(qwen3_config(), options));
  };
  CHECK(error_of("repeat: layers", "repeat: layers") == "");
  for (const char* count : {"-1", "0", "1025", "1000000000"})
    CHECK(error_of("repeat: layers", std::string("repeat: ") + count)
              .ends_with(std::string("error: repeat is ") + count + ", expected 1 to 1024"));
  CHECK(error_of("embed_tokens.weight, shape: [vocab, hidden]",
                 "embed_tokens.weight, shape: [vocab * 1073741824, hidden]")
            .ends_with("expected 1 to 16777216"));
}

TEST_CASE(
    "what the code of gpt-oss's gate has as constants, and a rope without type, are refused at their key") {
  const auto config = read_source(MKC_SOURCE_DIR "/tests/fixtures/models/gpt_oss/config.json");
  REQUIRE(config.ok());
  const auto error_of = [&](const std::string& from, const std::string& to) {
    return headline(graph_of(edited(config.value().text, from, to)));
  };
  CHECK(error_of("\"swiglu_limit\": 7.0", "\"swiglu_limit\": 8.0") ==
        kFile + ":39:3: error: swiglu_limit is 8, the gpt_oss family supports 7");
  CHECK(error_of("\"swiglu_alpha\": 1.702", "\"swiglu_alpha\": 1.5") ==
        kFile + ":38:3: error: swiglu_alpha is 1.5, the gpt_oss family supports 1.702");
  CHECK(error_of("\"full_attention\"", "\"chunked_attention\"") ==
        kFile +
            ":15:3: error: layer_types is \"chunked_attention\", the gpt_oss family supports "
            "\"sliding_attention\" or \"full_attention\"");
  CHECK(error_of("\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 5") ==
        kFile + ":22:3: error: num_experts_per_tok is 5, expected at most num_local_experts 4");
  // transformers takes YaRN for an empty map, and the default type for a map of other keys.
  CHECK(error_of("\"rope_parameters\": {", "\"rope_scaling\": {}, \"x\": {") ==
        kFile + ":29:3: error: rope_scaling has no rope_type, expected one");
  CHECK(error_of("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3") ==
        kFile + ":21:3: error: num_attention_heads is 4, expected a multiple of num_key_value_heads 3");
}
