#include <doctest/doctest.h>

#include "tests/unit/frontend/fixtures.h"

using namespace mkc;
using namespace mkc::test;

namespace {

std::vector<CheckpointTensor> llama_tensors() {
  const auto graph = graph_of(llama_config());
  REQUIRE(graph.ok());
  return checkpoint_of(graph.value());
}

std::string result_with(const std::vector<CheckpointTensor>& tensors) {
  return headline(graph_of(llama_config(), {}, tensors));
}

}  // namespace

TEST_CASE("a checkpoint whose every tensor has its place is taken, in its own dtype") {
  auto tensors = llama_tensors();
  REQUIRE(tensors.size() == 12);
  for (auto& tensor : tensors) tensor.dtype = DType::f32;
  const auto graph = graph_of(llama_config(), {}, tensors);
  REQUIRE(graph.ok());
  CHECK(checkpoint_of(graph.value())[0].dtype == DType::f32);
}

TEST_CASE("a tensor the family does not use is an error, unless declared as ignored") {
  auto tensors = llama_tensors();
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", DType::f32, {4}, "a.safetensors"});
  CHECK(result_with(tensors) == "");
  tensors.push_back({"model.layers.0.self_attn.q_proj.bias", DType::bf16, {32}, "b.safetensors"});
  CHECK(
      result_with(tensors) ==
      "b.safetensors: error: tensor \"model.layers.0.self_attn.q_proj.bias\" [32] has no place in the llama "
      "family");
}

TEST_CASE("a copy of tied embeddings is ignored, only where they are tied") {
  const std::string tied =
      edited(llama_config(), "\"hidden_act\"", "\"tie_word_embeddings\": true, \"hidden_act\"");
  const auto graph = graph_of(tied, {}, llama_tensors());
  REQUIRE(graph.ok());
  CHECK(checkpoint_of(graph.value()).size() == 11);
}

TEST_CASE("missing, misshapen, mistyped and doubled tensors are named") {
  const auto good = llama_tensors();
  auto tensors = good;
  tensors[1].name = "model.norms.weight";
  CHECK(
      result_with(tensors) ==
      "DIR: error: missing tensor \"model.norm.weight\" [32], needed by models/llama.yaml:48:3, did you mean "
      "\"model.norms.weight\"?");
  tensors = good;
  tensors[1].shape = {31};
  CHECK(result_with(tensors) ==
        "model.safetensors: error: tensor \"model.norm.weight\" has shape [31], expected [32]");
  tensors = good;
  tensors[1].dtype = DType::f16;
  CHECK(result_with(tensors) ==
        "model.safetensors: error: tensor \"model.norm.weight\" is f16, expected bf16 as "
        "\"model.embed_tokens.weight\"");
  tensors = good;
  for (auto& tensor : tensors) tensor.dtype = DType::i32;
  CHECK(result_with(tensors) ==
        "model.safetensors: error: tensor \"model.embed_tokens.weight\" is i32, expected bf16, f16 or f32");
  tensors = good;
  tensors.push_back({"model.norm.weight", DType::bf16, {32}, "b.safetensors"});
  CHECK(result_with(tensors) ==
        "b.safetensors: error: tensor \"model.norm.weight\" is also in model.safetensors");
}
