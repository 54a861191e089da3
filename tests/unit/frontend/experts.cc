// These tests compare op graphs of mixture-of-experts families with expected listings and shapes.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/frontend/fixtures.h"

using namespace mkc;
using namespace mkc::test;

namespace {

// Returns the listing of a layer's ops after its post_norm.
std::string feed_forward(const OpGraph& g, int layer) {
  const std::string text = listing(g), number = std::to_string(layer);
  const size_t begin = text.find("\n", text.find("l" + number + ".post_norm")) + 1;
  return text.substr(begin, text.find(".x\n", begin) + 3 - begin);
}

std::string expert_layer(const char* norm_topk) {
  return "0 linear l0.g l0.router -> l0.router_logits\n"
         "0 route l0.router_logits -> l0.choice l0.routing_weight norm_topk=" +
         std::string(norm_topk) +
         " top_k=2\n"
         "0 expert_linear l0.g l0.choice l0.e_gate -> l0.gate\n"
         "0 expert_linear l0.g l0.choice l0.e_up -> l0.up\n"
         "0 silu_mul l0.gate l0.up -> l0.act\n"
         "0 expert_linear l0.act l0.choice l0.e_down -> l0.expert_down\n"
         "0 expert_sum l0.expert_down l0.routing_weight -> l0.down\n"
         "0 add l0.y l0.down -> l0.x\n";
}

const Expr kTokens = symbol(SymbolId{0});

}  // namespace

TEST_CASE("Qwen3-MoE routes each token to experts, whose results it sums by their shares") {
  const OpGraph g = valid_graph_of(qwen3_moe_config());
  CHECK(feed_forward(g, 0) == expert_layer("0"));
  CHECK(tensor_of(g, "l0.choice").dtype == DType::i32);
  CHECK(tensor_of(g, "l0.choice").shape == std::vector<Expr>{kTokens, 2});
  CHECK(tensor_of(g, "l0.routing_weight").dtype == DType::f32);
  CHECK(tensor_of(g, "l0.act").shape == std::vector<Expr>{2 * kTokens, 24});
  CHECK(tensor_of(g, "l0.down").shape == std::vector<Expr>{kTokens, 32});
  CHECK(tensor_of(g, "l0.e_gate").shape == std::vector<Expr>{4, 24, 32});
  CHECK(tensor_of(g, "l0.e_gate").source == "model.layers.0.mlp.experts.{e}.gate_proj.weight");
  CHECK(tensor_of(g, "l0.e_down").shape == std::vector<Expr>{4, 32, 24});
  const std::string normed =
      edited(qwen3_moe_config(), "\"norm_topk_prob\": false", "\"norm_topk_prob\": true");
  CHECK(feed_forward(valid_graph_of(normed), 0) == expert_layer("1"));
}

TEST_CASE("Mixtral's shares add up to one, and its experts have Mixtral's names") {
  const OpGraph g = valid_graph_of(mixtral_config());
  CHECK(feed_forward(g, 0) == expert_layer("1"));
  CHECK(tensor_of(g, "l0.e_gate").source == "model.layers.0.block_sparse_moe.experts.{e}.w1.weight");
  CHECK(tensor_of(g, "l0.e_up").source == "model.layers.0.block_sparse_moe.experts.{e}.w3.weight");
  CHECK(tensor_of(g, "l0.e_down").source == "model.layers.0.block_sparse_moe.experts.{e}.w2.weight");
  CHECK(tensor_of(g, "l0.e_down").shape == std::vector<Expr>{3, 32, 48});
}

TEST_CASE("decoder_sparse_step and mlp_only_layers say which layers are dense") {
  std::string config = edited(qwen3_moe_config(), "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 6");
  const auto sparse_layers = [](const OpGraph& g) {
    std::vector<int> layers;
    for (const Op& op : g.ops)
      if (op.kind == OpKind::kRoute) layers.push_back(op.layer);
    return layers;
  };
  CHECK(sparse_layers(valid_graph_of(config)) == std::vector<int>{0, 1, 2, 3, 4, 5});
  config = edited(config, "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2");
  CHECK(sparse_layers(valid_graph_of(config)) == std::vector<int>{1, 3, 5});
  config = edited(config, "\"mlp_only_layers\": []", "\"mlp_only_layers\": [0, 3]");
  const OpGraph g = valid_graph_of(config);
  CHECK(sparse_layers(g) == std::vector<int>{1, 5});
  CHECK(feed_forward(g, 3) ==
        "3 linear l3.g l3.w_gate -> l3.gate\n"
        "3 linear l3.g l3.w_up -> l3.up\n"
        "3 silu_mul l3.gate l3.up -> l3.act\n"
        "3 linear l3.act l3.w_down -> l3.down\n"
        "3 add l3.y l3.down -> l3.x\n");
  CHECK(graph_of(edited(config, "\"mlp_only_layers\": [0, 3]", "\"mlp_only_layers\": null")).ok());
}

TEST_CASE("a checkpoint holds one matrix for each expert, all of which are taken") {
  const auto tensors = checkpoint_of(valid_graph_of(qwen3_moe_config()));
  const auto named = [&](const std::string& name) {
    return std::find_if(tensors.begin(), tensors.end(), [&](auto& t) { return t.name == name; });
  };
  REQUIRE(named("model.layers.0.mlp.experts.3.up_proj.weight") != tensors.end());
  CHECK(named("model.layers.0.mlp.experts.3.up_proj.weight")->shape == std::vector<int64_t>{24, 32});
  CHECK(named("model.layers.0.mlp.experts.4.up_proj.weight") == tensors.end());
  CHECK(headline(graph_of(qwen3_moe_config(), {}, tensors)) == "");
}

TEST_CASE("the configs of Qwen3-30B-A3B, Mixtral 8x7B and gpt-oss-20b become ops") {
  for (const auto& [name, layers] : {std::pair{"/tools/bench/configs/qwen3-30b-a3b", 48},
                                     {"/tests/fixtures/configs/mixtral-8x7b", 32},
                                     {"/tools/bench/configs/gpt-oss-20b", 24}}) {
    CAPTURE(name);
    const auto request = read_request(std::string(MKC_SOURCE_DIR) + name);
    REQUIRE_MESSAGE(request.ok(), (request.ok() ? "" : request.error().message));
    const auto g = build_op_graph(request.value(), {});
    REQUIRE_MESSAGE(g.ok(), (g.ok() ? "" : g.error().message));
    CHECK(std::count_if(g.value().ops.begin(), g.value().ops.end(),
                        [](const Op& op) { return op.kind == OpKind::kRoute; }) == layers);
  }
}
