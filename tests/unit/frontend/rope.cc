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

TEST_CASE("the original context may be a key of the config, and is one number") {
  const auto with = [](const nlohmann::json& inside, const nlohmann::json& outside) {
    const nlohmann::json scaling{
        {"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", inside}};
    return config_with(
        8, {{"rope_scaling", scaling}, {"rope_theta", 10000}, {"original_max_position_embeddings", outside}});
  };
  const std::vector<double> expected = rope_of(with(32, nullptr)).inv_freq;
  CHECK(rope_of(with(nullptr, 32)).inv_freq == expected);
  CHECK(rope_of(with(32, 32)).inv_freq == expected);
  CHECK(rope_of(with(nullptr, nullptr)).inv_freq != expected);
  CHECK(headline(graph_of(with(32, 16)))
            .ends_with("error: original_max_position_embeddings is 16, but "
                       "rope_scaling.original_max_position_embeddings is 32"));
  CHECK(headline(graph_of(with(nullptr, 0)))
            .ends_with("error: original_max_position_embeddings is 0, expected more than 0"));
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
