// These tests compare sliding windows of the Qwen families with the masks that transformers makes of the same
// config.json.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/frontend/fixtures.h"

using namespace mkc;
using namespace mkc::test;

namespace {

// Returns the first position that each token sees in each layer.
std::vector<std::vector<int64_t>> first_seen(const OpGraph& graph, int64_t tokens) {
  std::vector<std::vector<int64_t>> layers;
  for (const Op& op : graph.ops) {
    if (op.kind != OpKind::kAttention) continue;
    const int64_t window = int_attr(op.attrs, "window", -1);
    std::vector<int64_t>& first = layers.emplace_back();
    for (int64_t t = 0; t < tokens; ++t)
      first.push_back(window == 0 ? 0 : std::max<int64_t>(0, t + 1 - window));
  }
  return layers;
}

TEST_CASE("layers see what transformers' masks let them see, whichever keys of config.json say it") {
  std::ifstream file(MKC_SOURCE_DIR "/tests/oracle/windows/vectors.json");
  const nlohmann::json cases = nlohmann::json::parse(file);
  REQUIRE(cases.size() == 29);
  for (const nlohmann::json& c : cases) {
    CAPTURE(c["config"].dump());
    const auto graph = graph_of(c["config"].dump(1));
    REQUIRE(graph.ok() == !c["first"].is_null());
    if (!graph.ok()) continue;
    const auto expected = c["first"].get<std::vector<std::vector<int64_t>>>();
    CHECK(first_seen(graph.value(), static_cast<int64_t>(expected[0].size())) == expected);
  }
}

std::string refused(const std::string& keys) {
  return headline(
      graph_of(edited(qwen2_config(), "  \"use_sliding_window\": false,\n  \"sliding_window\": 8,\n", keys)));
}

TEST_CASE("the Qwen families have a window of 4096 where no key says another") {
  const auto graph =
      graph_of(edited(qwen2_config(), "  \"use_sliding_window\": false,\n  \"sliding_window\": 8,\n",
                      "  \"use_sliding_window\": true,\n  \"max_window_layers\": 0,\n"));
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  CHECK(first_seen(graph.value(), 5000)[0].back() == 904);
}

TEST_CASE("gpt-oss has a window of 128 where no key says another") {
  std::ifstream file(MKC_SOURCE_DIR "/tests/fixtures/models/gpt_oss/config.json");
  nlohmann::json config = nlohmann::json::parse(file);
  const auto last_seen = [&] { return first_seen(graph_of(config.dump(1)).value(), 200)[0].back(); };
  CHECK(last_seen() == 192);
  config.erase("sliding_window");
  CHECK(last_seen() == 72);
}

TEST_CASE("layer_types of Mistral say which layers have the window, and contradict none") {
  const auto with = [](const std::string& window, const std::string& types) {
    const std::string layers =
        edited(mistral_config(), "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2");
    return graph_of(edited(layers, "\"sliding_window\": null",
                           "\"sliding_window\": " + window + ",\n  \"layer_types\": " + types));
  };
  const auto mixed = with("3", "[\"full_attention\", \"sliding_attention\"]");
  REQUIRE_MESSAGE(mixed.ok(), (mixed.ok() ? "" : mixed.error().message));
  CHECK(first_seen(mixed.value(), 5) == std::vector<std::vector<int64_t>>{{0, 0, 0, 0, 0}, {0, 0, 0, 1, 2}});
  CHECK(headline(with("null", "[\"full_attention\", \"sliding_attention\"]"))
            .ends_with("error: layer_types has sliding_attention, but there is no sliding_window"));
  CHECK(headline(with("3", "[\"full_attention\"]"))
            .ends_with("error: layer_types does not have an element for each of the 2 layers"));
}

TEST_CASE("a window of 0 is not the same as none") {
  const std::string said = "error: sliding_window is 0, expected null or at least 1",
                    window = "\"sliding_window\": ";
  for (const std::string& config : {mistral_config(), mixtral_config()})
    CHECK(headline(graph_of(edited(config, window + "null", window + "0"))).ends_with(said));
  CHECK(refused("  \"use_sliding_window\": true,\n  \"sliding_window\": 0,\n").ends_with(said));
  CHECK(refused("  \"use_sliding_window\": false,\n  \"sliding_window\": 0,\n").empty());
  for (const char* family : {"qwen3", "qwen3_moe"}) {
    std::ifstream file(fmt::format("{}/tests/fixtures/models/{}/config.json", MKC_SOURCE_DIR, family));
    nlohmann::json config = nlohmann::json::parse(file);
    config["use_sliding_window"] = true, config["sliding_window"] = 0;
    config.erase("layer_types");
    CHECK(headline(graph_of(config.dump(1))).ends_with(said));
  }
}

TEST_CASE("a window of Llama is refused unless nothing could take it for one") {
  const auto error_of = [](const std::string& keys) {
    return headline(graph_of(edited(llama_config(), "  \"vocab_size\"", keys + "  \"vocab_size\"")));
  };
  CHECK(
      error_of("  \"sliding_window\": 8,\n")
          .ends_with("error: this family has no windows, expected null, at least max_position_embeddings, or "
                     "full_attention of each layer in layer_types"));
  CHECK_FALSE(error_of("  \"sliding_window\": 8, \"layer_types\": [],\n").empty());
  CHECK(error_of("  \"sliding_window\": null,\n").empty());
  CHECK(error_of("  \"sliding_window\": 1048576,\n").empty());
  CHECK(error_of("  \"sliding_window\": 8, \"layer_types\": [\"full_attention\"],\n").empty());
}

TEST_CASE("sliding layers of gpt-oss have a window") {
  std::ifstream file(MKC_SOURCE_DIR "/tests/fixtures/models/gpt_oss/config.json");
  nlohmann::json config = nlohmann::json::parse(file);
  const auto error_of = [&](const nlohmann::json& window) {
    config["sliding_window"] = window;
    return headline(graph_of(config.dump(1)));
  };
  const std::string said =
      "error: sliding_window is null or less than 1, expected at least 1 for layers of sliding_attention";
  for (const nlohmann::json& window : {nlohmann::json(0), nlohmann::json()})
    CHECK(error_of(window).ends_with(said));
  CHECK(error_of(1).empty());
  config["layer_types"] = std::vector<std::string>(config["num_hidden_layers"], "full_attention");
  CHECK(error_of(nullptr).empty());
  config["layer_types"].push_back("full_attention");
  CHECK(error_of(8).ends_with("error: layer_types does not have an element for each of the 2 layers"));
}

TEST_CASE("windows that contradict themselves or are not known are refused") {
  CHECK(refused("  \"use_sliding_window\": true,\n  \"sliding_window\": \"all\",\n") ==
        "DIR/config.json:14:3: error: sliding_window is \"all\", expected an int");
  CHECK(refused("  \"sliding_window\": 8,\n  \"layer_types\": [\"sliding_attention\"],\n") ==
        "DIR/config.json:14:3: error: layer_types has sliding_attention, but use_sliding_window is not true");
  CHECK(refused("  \"use_sliding_window\": true,\n  \"sliding_window\": null,\n  \"layer_types\": "
                "[\"sliding_attention\"],\n") ==
        "DIR/config.json:15:3: error: layer_types has sliding_attention, but there is no sliding_window");
  CHECK(refused("  \"layer_types\": [\"full_attention\", \"full_attention\"],\n") ==
        "DIR/config.json:13:3: error: layer_types does not have an element for each of the 1 layers");
  CHECK(refused("  \"layer_types\": [\"chunked_attention\"],\n") ==
        "DIR/config.json:13:3: error: layer_types is \"chunked_attention\", the qwen2 family supports "
        "\"full_attention\" or \"sliding_attention\"");
  CHECK(refused("  \"layer_types\": [\"full_attention\", \"chunked_attention\"],\n") ==
        "DIR/config.json:13:3: error: layer_types is \"chunked_attention\", the qwen2 family supports "
        "\"full_attention\" or \"sliding_attention\"");
}

}  // namespace
