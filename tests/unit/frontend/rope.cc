#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/frontend/fixtures.h"

using namespace mkc;
using namespace mkc::test;

namespace {

RopeTable rope_of(const std::string& config) {
  const auto graph = graph_of(config);
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  REQUIRE(graph.value().ropes.size() == 1);
  return graph.value().ropes[0];
}

// Returns the config of the fixtures with the head size and rotary keys of a case.
std::string config_with(const nlohmann::json& head_dim, const nlohmann::json& keys) {
  nlohmann::json config = nlohmann::json::parse(llama_config());
  config.erase("rope_theta");
  config["head_dim"] = head_dim;
  config.update(keys);
  return config.dump(1);
}

}  // namespace

TEST_CASE("rotary frequencies agree with transformers in both spellings of the config") {
  std::ifstream file(MKC_SOURCE_DIR "/tests/oracle/rope/vectors.json");
  const auto cases = nlohmann::json::parse(file);
  REQUIRE(cases.size() == 11);
  for (const auto& one : cases) {
    CAPTURE(one["name"].get<std::string>());
    const auto& parameters = one["rope_parameters"];
    auto scaling = parameters;
    scaling.erase("rope_theta");
    const RopeTable with_newer = rope_of(config_with(one["head_dim"], {{"rope_parameters", parameters}}));
    const RopeTable with_older = rope_of(
        config_with(one["head_dim"], {{"rope_scaling", scaling}, {"rope_theta", parameters["rope_theta"]}}));
    const std::vector<double>&newer = with_newer.inv_freq, &older = with_older.inv_freq;
    CHECK(newer == older);
    CHECK(with_newer.scale == with_older.scale);
    CHECK(with_newer.scale == doctest::Approx(one["scale"].get<double>()).epsilon(1e-12));
    REQUIRE(newer.size() == one["inv_freq"].size());
    for (size_t i = 0; i < newer.size(); ++i) {
      // The reference is rounded to float32 after a handful of float32 operations.
      CHECK(newer[i] == doctest::Approx(one["inv_freq"][i].get<double>()).epsilon(2e-6));
    }
  }
}

TEST_CASE("keys that a config leaves out have the defaults of transformers") {
  std::ifstream file(MKC_SOURCE_DIR "/tests/oracle/defaults/vectors.json");
  const auto cases = nlohmann::json::parse(file);
  REQUIRE(cases.size() == 141);
  for (const auto& one : cases) {
    nlohmann::json with_all = one["config"];
    for (const char* key : {"rope_scaling", "rope_theta", "num_experts"}) with_all.erase(key);
    with_all.update(one["taken"]);
    CAPTURE(one["config"].dump());
    const auto found = graph_of(one["config"].dump()), expected = graph_of(with_all.dump());
    REQUIRE_MESSAGE(found.ok(), (found.ok() ? "" : found.error().message));
    REQUIRE_MESSAGE(expected.ok(), (expected.ok() ? "" : expected.error().message));
    CHECK(listing(found.value()) == listing(expected.value()));
    CHECK(found.value().ropes == expected.value().ropes);
    CHECK((found.value() == expected.value()));  // shapes, bounds of symbols, and all else
  }
}

TEST_CASE("faults of a family's default_parameters are at their place in its file") {
  const auto llama = read_source(MKC_SOURCE_DIR "/models/llama.yaml");
  REQUIRE(llama.ok());
  const std::string key = "  original_context: config.max_position_embeddings\n";
  const auto error_of = [&](const std::string& map) {
    const TempDir dir;
    ModelOptions options;
    options.family =
        dir.write("f.yaml", edited(llama.value().text, key, key + "  default_parameters: " + map + "\n"));
    const std::string error = headline(graph_of(llama_config(), options));
    return error.empty() ? "" : error.substr(error.find("f.yaml"));
  };
  CHECK(error_of("{rope_type: linear, factor: 2}") == "");
  CHECK(error_of("7") == "f.yaml:57:23: error: default_parameters is 7, expected a map");
  CHECK(error_of("{rope_type: linear}") ==
        "f.yaml:57:23: error: missing key \"factor\" in default_parameters");
  CHECK(error_of("{rope_type: linear, factor: 0}") ==
        "f.yaml:57:51: error: default_parameters.factor is 0, expected more than 0");
  CHECK(error_of("{rope_type: x}") ==
        "f.yaml:57:35: error: default_parameters.rope_type is \"x\", expected \"default\", \"linear\", "
        "\"dynamic\", \"llama3\" or \"yarn\"");
  CHECK(error_of("{rope_type: default, factor: 2}") ==
        "f.yaml:57:44: error: unknown key \"factor\" in default_parameters");
}

TEST_CASE("the original context may be a key of the config, and is one number") {
  const auto with = [](const nlohmann::json& inside, const nlohmann::json& outside) {
    nlohmann::json scaling{{"type", "yarn"}, {"factor", 4}}, keys{{"rope_theta", 10000}};
    const char* key = "original_max_position_embeddings";
    if (inside != "missing") scaling[key] = inside;
    if (outside != "missing") keys[key] = outside;
    keys["rope_scaling"] = scaling;
    return config_with(8, keys);
  };
  const std::vector<double> expected = rope_of(with(32, "missing")).inv_freq;
  CHECK(rope_of(with("missing", 32)).inv_freq == expected);
  CHECK(rope_of(with(32, 32)).inv_freq == expected);
  CHECK(rope_of(with("missing", "missing")).inv_freq != expected);
  CHECK(headline(graph_of(with(32, 16)))
            .ends_with("error: original_max_position_embeddings is 16, but "
                       "rope_scaling.original_max_position_embeddings is 32"));
  CHECK(headline(graph_of(with("missing", 0)))
            .ends_with("error: original_max_position_embeddings is 0, expected more than 0"));
  for (const nlohmann::json& outside : {nlohmann::json("missing"), nlohmann::json(32)})
    CHECK(headline(graph_of(with(nullptr, outside)))
              .ends_with("error: rope_scaling.original_max_position_embeddings is null, expected a float"));
  CHECK(headline(graph_of(with("missing", nullptr)))
            .ends_with("error: original_max_position_embeddings is null, expected a float"));
}

TEST_CASE("a theta or a type of null, and one of 1 with yarn, are refused as transformers does") {
  const auto with = [](const nlohmann::json& parameters, const nlohmann::json& keys) {
    nlohmann::json all = keys;
    all["rope_parameters"] = parameters;
    return headline(graph_of(config_with(8, all)));
  };
  const nlohmann::json none = nlohmann::json::object(), theta{{"rope_theta", 50}},
                       null{{"rope_theta", nullptr}};
  CHECK(with({{"rope_type", "default"}}, theta).empty());
  CHECK(with({{"rope_type", "default"}, {"rope_theta", 50}}, null).empty());
  for (const nlohmann::json& keys : {none, theta})
    CHECK(with(null, keys).ends_with("error: rope_parameters.rope_theta is null, expected a float"));
  CHECK(with(nullptr, null).ends_with("error: rope_theta is null, expected a float"));
  for (const char* key : {"rope_type", "type"})
    CHECK(with({{key, nullptr}}, theta)
              .ends_with(std::string("error: rope_parameters.") + key +
                         " is null, expected \"default\", \"linear\", \"dynamic\", \"llama3\" or \"yarn\""));
  const nlohmann::json yarn{{"rope_type", "yarn"}, {"factor", 4}, {"rope_theta", 1}};
  CHECK(
      with(yarn, none).ends_with("error: rope_parameters.rope_theta is 1, expected another value for yarn"));
  CHECK(with({{"rope_theta", 1}}, none).empty());
}

TEST_CASE("a yarn factor of null is the ratio of the config's positions to the original context") {
  const auto with = [](const nlohmann::json& factor, const nlohmann::json& positions) {
    const nlohmann::json scaling{
        {"type", "yarn"}, {"factor", factor}, {"original_max_position_embeddings", 32}};
    return config_with(
        8, {{"rope_scaling", scaling}, {"rope_theta", 10000}, {"max_position_embeddings", positions}});
  };
  const auto expected = rope_of(with(4, 128)), found = rope_of(with(nullptr, 128));
  CHECK(found.inv_freq == expected.inv_freq);
  CHECK(found.scale == expected.scale);
  CHECK(found.inv_freq != rope_of(with(nullptr, 256)).inv_freq);
  CHECK(headline(graph_of(config_with(8, {{"rope_scaling", {{"type", "linear"}, {"factor", nullptr}}}})))
            .find("rope_scaling.factor") != std::string::npos);
}

TEST_CASE("a truncate of null is no bool") {
  const nlohmann::json scaling{{"type", "yarn"}, {"factor", 4}, {"truncate", nullptr}};
  CHECK(headline(graph_of(config_with(8, {{"rope_scaling", scaling}, {"rope_theta", 10000}})))
            .ends_with("error: rope_scaling.truncate is null, expected a bool"));
}

TEST_CASE("yarn stretches the context that a model can have, the other types do not") {
  const auto context_of = [](const std::string& type, int64_t context) {
    const nlohmann::json scaling{{"type", type}, {"factor", 4}, {"original_max_position_embeddings", 64}};
    ModelOptions options;
    options.context = context;
    const auto graph = graph_of(config_with(8, {{"rope_scaling", scaling}, {"rope_theta", 10000}}), options);
    return graph.ok() ? "" : graph.error().message;
  };
  CHECK(context_of("yarn", 256).empty());
  CHECK(context_of("yarn", 257) == "--context: error: found 257, expected 1 to 256, the model's maximum");
  CHECK(context_of("dynamic", 64).empty());
  CHECK(context_of("dynamic", 65) == "--context: error: found 65, expected 1 to 64, the model's maximum");
  CHECK(context_of("linear", 65) == "--context: error: found 65, expected 1 to 64, the model's maximum");
}
