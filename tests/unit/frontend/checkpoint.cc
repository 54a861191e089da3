#include <doctest/doctest.h>

#include "runtime/artefact/stored_matrix.h"
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
  tensors.push_back({"model.rotary_emb.inv_freq", DType::f32, {4}, "a.safetensors"});
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

TEST_CASE("a head beside tied embeddings that is no copy of them is an error of the config") {
  const std::string tied =
      edited(llama_config(), "\"hidden_act\"", "\"tie_word_embeddings\": true, \"hidden_act\"");
  for (const size_t size : {100 * 32 * 2, 3 << 20}) {
    std::vector<std::byte> embed(size), head = embed;
    auto tensors = llama_tensors();
    for (CheckpointTensor& t : tensors) {
      if (t.name == "model.embed_tokens.weight") t.bytes = embed;
      if (t.name == "lm_head.weight") t.bytes = head;
    }
    CHECK(graph_of(tied, {}, tensors).ok());
    head[size / 2 - 1] = std::byte{1};
    CHECK(
        headline(graph_of(tied, {}, tensors)) ==
        "DIR/config.json:4:3: error: tie_word_embeddings is true, but tensor \"lm_head.weight\" differs from "
        "\"model.embed_tokens.weight\"");
    CHECK(result_with(tensors) == "");
  }
}

TEST_CASE("missing, misshapen, mistyped and doubled tensors are named") {
  const auto good = llama_tensors();
  auto tensors = good;
  tensors[1].name = "model.norms.weight";
  CHECK(
      result_with(tensors) ==
      "DIR: error: missing tensor \"model.norm.weight\" [32], needed by models/llama.yaml:60:3, did you mean "
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

namespace {

constexpr const char* kQuantized =
    R"("quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized",
       "config_groups": {"group_0": {"targets": ["Linear"],
         "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}},
       "hidden_act")";

// Returns the tensors of a llama. Each weight in `coded` holds e4m3 codes and has a tensor of scales.
std::vector<CheckpointTensor> coded_tensors(const std::vector<std::string>& coded) {
  std::vector<CheckpointTensor> tensors = llama_tensors();
  const size_t count = tensors.size();
  for (const std::string& name : coded)
    for (size_t i = 0; i < count; ++i) {
      if (tensors[i].name != name) continue;
      tensors[i].dtype = DType::e4m3, tensors[i].stored = "F8_E4M3";
      const std::vector<int64_t> column{tensors[i].shape[0], 1};
      tensors.push_back({name + "_scale", DType::bf16, column, "scales.safetensors"});
    }
  return tensors;
}

Result<OpGraph> coded_graph(const std::vector<CheckpointTensor>& tensors) {
  return graph_of(edited(llama_config(), "\"hidden_act\"", kQuantized), {}, tensors);
}

}  // namespace

TEST_CASE("each matrix of a quantized checkpoint has the dtype of its own tensor") {
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  auto tensors = coded_tensors({q});
  const auto graph = coded_graph(tensors);
  REQUIRE_MESSAGE(graph.ok(), headline(graph));
  for (const Tensor& t : graph.value().tensors) {
    if (t.kind == TensorKind::kWeight) CHECK(t.dtype == (t.source == q ? DType::e4m3 : DType::bf16));
    if (t.kind == TensorKind::kCache) CHECK(t.dtype == DType::bf16);
  }
  tensors.back().shape = {tensors.back().shape[0]};
  tensors.back().dtype = DType::f32;
  CHECK(headline(coded_graph(tensors)) == "");
}

TEST_CASE("codes without fitting scales, or where no product takes them, are named") {
  const std::string q = "model.layers.0.self_attn.q_proj.weight", embed = "model.embed_tokens.weight";
  auto tensors = coded_tensors({q});
  CHECK(result_with(tensors) ==
        "model.safetensors: error: tensor \"" + q + "\" is F8_E4M3, expected bf16 as \"" + embed + "\"");
  tensors.back().shape = {2};
  const std::string expected =
      "BF16, F16, F32 or F8_E8M0 [32, 1], [1] or [1, 1], a scale for each row, for all, or for each block of "
      "128 x 128";
  CHECK(headline(coded_graph(tensors)) ==
        "scales.safetensors: error: tensor \"" + q + "_scale\" is BF16 [2], expected " + expected);
  tensors.pop_back();
  CHECK(headline(coded_graph(tensors)) == "model.safetensors: error: missing tensor \"" + q +
                                              "_scale\" beside \"" + q + "\", expected " + expected);
  tensors = coded_tensors({q});
  tensors.push_back({"model.layers.0.self_attn.q_proj.input_scale", DType::bf16, {1}, "a.safetensors"});
  CHECK(headline(coded_graph(tensors)) == "");
  CHECK(headline(coded_graph(coded_tensors({embed}))) ==
        "model.safetensors: error: tensor \"" + embed +
            "\" is F8_E4M3, expected bf16, f16 or f32 for op embed");
}

namespace {

constexpr const char* kPacked =
    R"("quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized",
       "config_groups": {"group_0": {"targets": ["Linear"],
         "weights": {"num_bits": 4, "type": "int", "strategy": "group"}}}},
       "hidden_act")";

// Returns the error for a llama whose q_proj has codes of 4 bits and scales of these shapes.
std::string packed_error(const std::vector<int64_t>& codes, const std::vector<int64_t>& scales) {
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  std::vector<CheckpointTensor> tensors;
  for (const CheckpointTensor& t : llama_tensors())
    if (t.name != q) tensors.push_back(t);
  tensors.push_back({q + "_packed", DType::i32, codes, "model.safetensors", "I32"});
  if (!scales.empty()) tensors.push_back({q + "_scale", DType::f16, scales, "scales.safetensors"});
  tensors.push_back({q + "_shape", DType::i32, {2}, "model.safetensors", "I64"});
  return headline(graph_of(edited(llama_config(), "\"hidden_act\"", kPacked), {}, tensors));
}

}  // namespace

TEST_CASE("codes of 4 bits have words and scales of whole groups") {
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  CHECK(packed_error({32, 4}, {32, 1}) == "");
  CHECK(packed_error({32, 3}, {32, 1}) == "model.safetensors: error: tensor \"" + q +
                                              "_packed\" is I32 [32, 3], expected I32 [32, 4] of 8 codes in "
                                              "a word or [32, 8] of 4 codes in a word");
  CHECK(packed_error({32, 4}, {}) ==
        "model.safetensors: error: missing tensor \"" + q + "_scale\", the scales of \"" + q + "_packed\"");
  for (const std::vector<int64_t>& scales : {std::vector<int64_t>{32, 3}, {16, 1}, {32}, {32, 0}})
    CHECK(packed_error({32, 4}, scales)
              .find("expected BF16, F16 or F32 [32, n], a scale for each group of columns") !=
          std::string::npos);
  CHECK(packed_error({32, 4}, {32, 2})
            .ends_with(
                "is F16 [32, 2], expected a scale for each row or each group of a multiple of 32 columns"));
}

TEST_CASE("codes whose words are cut along rows need whole words of rows") {
  const auto message = [](uint64_t rows, uint64_t cols) {
    const mkrt::TensorHeader codes{"q.qweight", "I32", "f", {1, 1}};
    const auto find = [&](const std::string& name) {
      return name == codes.name ? std::optional(codes) : std::nullopt;
    };
    return mkrt::find_stored_matrix(find, "q.weight", rows, cols, true).error().message;
  };
  CHECK(message(18, 32).ends_with("expected I32 with a multiple of 8 for the 18 rows"));
  CHECK(message(32, 18).ends_with("expected I32 with a multiple of 8 for the 18 columns"));
}
