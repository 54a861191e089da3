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

}  // namespace
}  // namespace mkc
