// This test runs the engine over a kernel. Requests in a batch must get the tokens that they get alone.
#include "runtime/engine/engine.h"

#include <doctest/doctest.h>

#include <random>

#include "runtime/engine/session_stepper.h"
#include "tests/e2e/pipeline.h"
#include "tests/reference/model.h"

namespace mkc {
namespace {

using test::Model;

std::vector<mkrt::Request> random_requests(uint32_t seed, size_t count, uint64_t vocab) {
  std::mt19937 random(seed);
  std::vector<mkrt::Request> requests(count);
  for (mkrt::Request& r : requests) {
    r.prompt.resize(1 + random() % (random() % 2 ? 70 : 6));
    for (int32_t& token : r.prompt) token = static_cast<int32_t>(random() % vocab);
    r.max_new_tokens = 1 + random() % 12;
    r.arrive_at_step = random() % 8;
  }
  return requests;
}

TEST_CASE("requests that join and leave get the tokens that each gets alone") {
  // The weights are f32, so the order of sums does not depend on the tokens of a step.
  const reference::Model weights = reference::random_model({}, 29);
  for (const int64_t max_tokens : {5, 16}) {
    if (!test::on_processor() && max_tokens == 16) continue;  // the engine is the same on all devices
    CAPTURE(max_tokens);
    const Model model(weights, {3, true, false, max_tokens});
    test::Opened opened = model.open();
    mkrt::SessionStepper stepper(opened.session);
    mkrt::Engine engine = mkrt::Engine::open(stepper).value();
    const std::vector<mkrt::Request> requests =
        random_requests(static_cast<uint32_t>(max_tokens), 8, model.vocab());
    for (const mkrt::Request& r : requests) engine.submit(r);
    while (!engine.idle()) REQUIRE(engine.step().ok());
    const std::vector<mkrt::Outcome> outcomes = engine.take_outcomes();
    REQUIRE(outcomes.size() == requests.size());
    for (const mkrt::Outcome& outcome : outcomes) {
      CAPTURE(outcome.id);
      const mkrt::Request& r = requests[outcome.id];
      CHECK(outcome.new_ids == model.generate(r.prompt, r.max_new_tokens).tokens);
    }
  }
}

// Returns requests whose prompts begin alike. Half of them go on from the answer of the first one.
std::vector<mkrt::Request> conversations(const Model& model, uint32_t seed) {
  std::mt19937 random(seed);
  const auto extend = [&](std::vector<int32_t>& prompt, uint32_t tokens) {
    for (; tokens > 0; --tokens) prompt.push_back(static_cast<int32_t>(random() % model.vocab()));
  };
  std::vector<mkrt::Request> requests(8);
  extend(requests[0].prompt, 37);
  requests[0].max_new_tokens = 14;
  std::vector<int32_t> turn = requests[0].prompt;
  for (const int32_t id : model.generate(turn, 14).tokens) turn.push_back(id);
  for (size_t i = 1; i < requests.size(); ++i) {
    mkrt::Request& r = requests[i];
    r.prompt = i % 2 ? requests[0].prompt : turn;
    extend(r.prompt, random() % 20);
    r.max_new_tokens = 1 + random() % 24;
    r.arrive_at_step = i < 3 ? 0 : 20 + i;
    r.priority = static_cast<int32_t>(random() % 3);
  }
  return requests;
}

TEST_CASE("requests that read pages of others get the tokens that each gets alone") {
  struct Case {
    reference::Type type;
    bool race;
    mkrt::Preemption preemption;
    uint32_t pages, steps_per_launch;
  };
  uint64_t preemptions = 0;
  for (const Case& c : {Case{reference::Type::kF32, true, mkrt::Preemption::kNone, 24, 1},
                        Case{reference::Type::kBf16, false, mkrt::Preemption::kRecompute, 7, 1},
                        Case{reference::Type::kF32, false, mkrt::Preemption::kRecompute, 7, 6}}) {
    if (!test::on_processor() && c.steps_per_launch > 1) continue;  // steps.cc has such launches
    CAPTURE(c.pages);
    reference::Shape shape;
    shape.type = c.type;
    const reference::Model weights = reference::random_model(shape, 31);
    const Model model(weights, {.workers = 3, .race = c.race});
    std::optional<Model> quicker;  // its bits are the same
    if (c.race) quicker.emplace(weights, test::Build{.workers = 3});
    const Model& without_race = c.race ? *quicker : model;
    mkrt::SessionOptions options;
    options.cache.pages = c.pages;
    test::Opened opened = model.open(options);
    mkrt::SessionStepper stepper(opened.session);
    mkrt::Engine engine = mkrt::Engine::open(stepper, {.preemption = c.preemption,
                                                       .prefix_cache = true,
                                                       .max_rows_beside_decodes = 5,
                                                       .steps_per_launch = c.steps_per_launch})
                              .value();
    const std::vector<mkrt::Request> requests = conversations(without_race, c.pages);
    for (const mkrt::Request& r : requests) engine.submit(r);
    while (!engine.idle()) {
      const mkrt::Status status = engine.step();
      REQUIRE_MESSAGE(status.ok(), status.error().message);
    }
    const std::vector<mkrt::Outcome> outcomes = engine.take_outcomes();
    REQUIRE(outcomes.size() == requests.size());
    for (const mkrt::Outcome& outcome : outcomes) {
      CAPTURE(outcome.id);
      const mkrt::Request& r = requests[outcome.id];
      CHECK(outcome.new_ids == without_race.generate(r.prompt, r.max_new_tokens).tokens);
    }
    CHECK(engine.free_pages() == c.pages);
    CHECK(engine.stats().prefix_hits >= 4 * 32);
    preemptions += engine.stats().preemptions;
  }
  CHECK(preemptions > 0);
}

}  // namespace
}  // namespace mkc
