// These tests compare models and logits with those of transformers (tests/oracle/make_model_fixtures.py).
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/e2e/pipeline.h"
#include "tests/reference/distance.h"
#include "tests/reference/model.h"

namespace mkc {
namespace {

struct Fixture {
  std::string directory;
  std::vector<int32_t> prompt, tokens, fed;
  std::vector<std::vector<double>> logits;
};

Fixture read_fixture(const std::string& name) {
  Fixture f;
  f.directory = MKC_SOURCE_DIR "/tests/fixtures/models/" + name;
  std::ifstream file(f.directory + "/expected.json");
  const auto expected = nlohmann::json::parse(file);
  f.prompt = expected["prompt_ids"].get<std::vector<int32_t>>();
  f.tokens = expected["new_ids"].get<std::vector<int32_t>>();
  f.logits = expected["logits"].get<std::vector<std::vector<double>>>();
  f.fed = f.prompt;
  f.fed.insert(f.fed.end(), f.tokens.begin(), f.tokens.end() - 1);
  REQUIRE(f.logits.size() == f.fed.size());
  return f;
}

// Models named *_f32 have f32 weights and spell their config as before transformers 5. All other models have
// bf16 weights.
const std::string kModels[] = {"llama",          "qwen2",          "qwen3",
                               "mistral",        "mixtral",        "qwen3_moe",
                               "qwen3_moe_f32",  "llama_f32",      "mistral_window_f32",
                               "seed_oss",       "llama_bias_f32", "gpt_oss",
                               "llama_mlp_bias", "qwen3_bias_f32"};

TEST_CASE("the float64 reference agrees with transformers") {
  for (const std::string& name : kModels) {
    CAPTURE(name);
    const Fixture f = read_fixture(name);
    const auto logits = reference::logits_of(reference::read_checkpoint(f.directory), f.fed);
    // transformers computes the cosines and sines of RoPE in float32.
    for (size_t row = 0; row < f.fed.size(); ++row)
      CHECK(reference::row_distance(logits[row].data(), f.logits[row]).relative < 2e-6);
  }
}

TEST_CASE("checkpoints of transformers give its tokens and logits") {
  for (const std::string& name : kModels) {
    CAPTURE(name);
    const Fixture f = read_fixture(name);
    const test::Model model(f.directory, {.quick = !test::on_processor()});
    const test::Model::Output out = model.generate(f.prompt, static_cast<uint32_t>(f.tokens.size()));
    // bf16 weights round activations, so a choice between two close logits may differ.
    size_t same = 0;
    while (same < f.tokens.size() && out.tokens[same] == f.tokens[same]) ++same;
    MESSAGE(name << ": " << same << " of " << f.tokens.size() << " tokens as transformers chose them");
    const size_t rows = f.prompt.size() + same;
    const reference::Model weights = reference::read_checkpoint(f.directory);
    const bool exact = weights.shape.type == reference::Type::kF32;
    const auto honest = reference::logits_of(weights, f.fed, reference::Rounding::kBf16);
    double worst = 0, allowed = exact ? 2e-5 : 0;
    for (size_t row = 0; row < std::min(rows, f.fed.size()); ++row) {
      worst = std::max(
          worst, reference::row_distance(out.logits.data() + row * model.vocab(), f.logits[row]).relative);
      if (!exact)
        allowed = std::max(allowed, 2 * reference::row_distance(honest[row].data(), f.logits[row]).relative);
    }
    CHECK(worst <= allowed);
    if (same == f.tokens.size()) continue;
    std::vector<double> row = f.logits[f.prompt.size() - 1 + same];
    std::nth_element(row.begin(), row.begin() + 1, row.end(), std::greater<>());
    double norm = 0;
    for (const double v : row) norm += v * v;
    CHECK(row[0] - row[1] < allowed * std::sqrt(norm));
  }
}

}  // namespace
}  // namespace mkc
