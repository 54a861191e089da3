// These tests run models with experts. They check where the reference's random models route, and that bits do
// not depend on how a step is run.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/e2e/pipeline.h"
#include "tests/reference/model.h"
#include "tests/unit/temp_dir.h"

namespace mkc {
namespace {

using reference::Routing;
using reference::Shape;

const std::vector<int32_t> kIds{5, 1, 88, 42, 7, 9, 64, 3, 27, 90, 11, 2, 70, 33};

Shape experts_of(const char* family) {
  Shape s;
  s.family = family;
  s.layers = 3;
  s.experts = 6;
  s.top_k = 2;
  return s;
}

std::vector<std::vector<Routing>> routings_of(const reference::Model& model) {
  std::vector<std::vector<Routing>> routings;
  logits_of(model, kIds, reference::Rounding::kNone, &routings);
  REQUIRE(routings.size() == kIds.size());
  return routings;
}

TEST_CASE("a random model's routers use every expert, unless they are pulled") {
  for (const char* family : {"qwen3_moe", "mixtral"}) {
    CAPTURE(family);
    std::vector<int> uses(6);
    for (const auto& layers : routings_of(reference::random_model(experts_of(family), 3)))
      for (const Routing& r : layers)
        for (const int expert : r.experts) ++uses[static_cast<size_t>(expert)];
    CHECK(*std::min_element(uses.begin(), uses.end()) > 0);
    const auto skewed = reference::random_model(experts_of(family), 3, {0, -12, 0, 12, -12, -12});
    for (const auto& layers : routings_of(skewed)) {
      REQUIRE(layers.size() == 3);
      for (const Routing& r : layers) {
        REQUIRE(r.experts.size() == 2);
        CHECK(r.experts[0] == 3);
        CHECK((r.experts[1] == 0 || r.experts[1] == 2));
        CHECK(r.routing_weights[0] + r.routing_weights[1] == doctest::Approx(1));
      }
    }
  }
}

TEST_CASE("equal logits go to the lowest experts, and routing weights of all are below one") {
  Shape s = experts_of("qwen3_moe");
  s.norm_top_k = false;
  reference::Model model = reference::random_model(s, 3);
  for (auto& [name, weight] : model.weights)
    if (name.ends_with("mlp.gate.weight")) std::fill(weight.begin(), weight.end(), 0.0);
  for (const auto& layers : routings_of(model))
    for (const Routing& r : layers) {
      CHECK(r.experts == std::vector<int>{0, 1});
      CHECK(r.routing_weights == std::vector<double>{1.0 / 6, 1.0 / 6});
      CHECK(r.margin == 0);
    }
}

TEST_CASE("a written checkpoint of experts reads back as the same model") {
  Shape s = experts_of("qwen3_moe");
  s.sparse_step = 2;
  s.layers = 4;
  s.dense_layers = {3};
  const reference::Model model = reference::random_model(s, 9);
  const mkrt::test::TempDir dir;
  reference::write_checkpoint(model, dir.path);
  const reference::Model read = reference::read_checkpoint(dir.path);
  CHECK(read.weights == model.weights);
  CHECK(model.weights.contains("model.layers.1.mlp.experts.5.down_proj.weight"));
  CHECK(model.weights.contains("model.layers.3.mlp.down_proj.weight"));
  CHECK(!model.weights.contains("model.layers.3.mlp.gate.weight"));
  CHECK(logits_of(read, kIds) == logits_of(model, kIds));
}

TEST_CASE("workers, seeds, copies, race mode and cuts of a prompt change no bit of a model of experts") {
  for (const auto& [family, type] : {std::pair{"qwen3_moe", reference::Type::kF32},
                                     {"qwen3_moe", reference::Type::kBf16},
                                     {"gpt_oss", reference::Type::kBf16}}) {
    const bool all = test::on_processor() || (type == reference::Type::kBf16 && family[0] == 'q');
    CAPTURE(family);
    CAPTURE(reference::type_name(type));
    Shape s = experts_of(family);
    s.type = type;
    if (s.family == "gpt_oss") s.window = 5;
    const reference::Model model = reference::random_model(s, 23);
    const test::Model four(model);
    const test::Model::Output expected = four.generate(kIds, 3);
    for (const uint64_t seed : {1, 2}) {
      mkrt::EmulatorDeviceOptions options;
      options.seed = seed;
      options.os_threads = static_cast<uint32_t>(seed);
      CHECK(test::same_bits(four.generate(kIds, 3, options), expected));
    }
    CHECK(test::same_bits(test::Model(model, {3, true, false, 4}).generate(kIds, 3), expected));
    CHECK(test::same_bits(test::Model(model, {3, false, true, 16}).generate(kIds, 3), expected));
    if (!all) continue;  // the emulator meets the settings below once
    for (const uint32_t workers : {1u, 7u})
      CHECK(test::same_bits(test::Model(model, {workers, true, false, 16}).generate(kIds, 3), expected));
    CHECK(test::same_bits(test::Model(model, {3, true, true, 16}).generate(kIds, 3), expected));
    for (const bool bulk_copy : {true, false}) {
      test::Build claimed{3, bulk_copy, bulk_copy, 16};
      claimed.scheduler = Scheduler::kDynamic;
      CHECK(test::same_bits(test::Model(model, claimed).generate(kIds, 3), expected));
    }
  }
}

// A layer whose products are placed otherwise has code of its own, so that the code of the others begins with
// another product of theirs.
TEST_CASE("placing the products of one layer otherwise changes no bit of a model of experts") {
  const std::vector<PlacementRule> first{{"l0.gate_up", PlacementKind::kQueue, {}}},
      both{{"l0.expert_down", PlacementKind::kRange, {}},
           {"l0.gate_up", PlacementKind::kQueue, {}},
           {"l1.gate_up", PlacementKind::kRange, {}}};
  for (const char* family : {"qwen3_moe", "mixtral", "gpt_oss"}) {
    CAPTURE(family);
    Shape s = experts_of(family);
    s.type = reference::Type::kBf16;
    const reference::Model model = reference::random_model(s, 29);
    const test::Model::Output expected = test::Model(model).generate(kIds, 3);
    for (const auto& rules : {first, both}) {
      test::Build build;
      build.placements = rules;
      CHECK(test::same_bits(test::Model(model, build).generate(kIds, 3), expected));
    }
  }
}

}  // namespace
}  // namespace mkc
