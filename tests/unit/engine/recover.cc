// Requests go on after the model has lost its pages and recovered.
#include <doctest/doctest.h>

#include <random>

#include "tests/unit/engine/fake_model.h"

namespace mkrt {
namespace {

TEST_CASE("after a loss of all pages every request gets the tokens that it gets alone") {
  for (const bool prefix_cache : {false, true})
    for (uint64_t fail_at = 0; fail_at < 25; ++fail_at) {
      CAPTURE(fail_at);
      FakeModel model(kFakeLimits);
      model.fail_at = fail_at;
      model.failures = 1 + fail_at % (kMaxLosses - 1);
      Engine engine = Engine::open(model, {.prefix_cache = prefix_cache}).value();
      std::vector<Request> requests;
      for (int32_t i = 0; i < 7; ++i)
        requests.push_back(counting_request(20, 6 + static_cast<uint32_t>(i), i % 3 * 100));
      requests[1].sampling = {.repetition_penalty = 1.5f, .temperature = 1, .seed = 5};
      for (const Request& r : requests) engine.submit(r);
      const uint32_t failures = model.failures;
      while (!engine.idle()) REQUIRE(engine.step().ok());
      CHECK(engine.stats().recoveries == failures);
      CHECK(engine.free_pages() == kFakeLimits.pages);
      const std::vector<Outcome> outcomes = engine.take_outcomes();
      REQUIRE(outcomes.size() == requests.size());
      for (const Outcome& outcome : outcomes) {
        const Request& r = requests[outcome.id];
        CHECK(outcome.reason == FinishReason::kLength);
        CHECK(outcome.new_ids ==
              fake_generate(r.prompt, r.max_new_tokens, {}, kFakeLimits.vocab, r.sampling));
      }
    }
}

TEST_CASE("requests that run in error after error end with the error, and later ones are served") {
  FakeModel model(kFakeLimits);
  model.fail_at = 0;
  model.failures = kMaxLosses;
  Engine engine = Engine::open(model).value();
  for (int32_t i = 0; i < 4; ++i) engine.submit(counting_request(4, 5, i));
  const uint64_t waits = engine.submit(counting_request(4, 5, 50));
  while (!engine.idle()) REQUIRE(engine.step().ok());
  const std::vector<Outcome> outcomes = engine.take_outcomes();
  REQUIRE(outcomes.size() == 5);
  for (const Outcome& outcome : outcomes) {
    CAPTURE(outcome.id);
    const bool ran = outcome.id < 2;  // 8 rows of a step hold two prompts
    CHECK(outcome.reason == (ran ? FinishReason::kError : FinishReason::kLength));
    CHECK(outcome.error == (ran ? "fake: error: worker 3 waited" : ""));
  }
  CHECK(outcomes.back().id == waits);
}

TEST_CASE("an error that ended all requests is over once the model recovers, and requests are served again") {
  for (const bool prefix_cache : {false, true}) {
    FakeModel model(kFakeLimits);
    model.fail_at = 2;
    model.failures = 1;
    model.vain = 3;
    Engine engine = Engine::open(model, {.prefix_cache = prefix_cache}).value();
    const Request r = counting_request(20, 6);
    engine.submit(r);
    Status status;
    while (!engine.idle()) status = engine.step();
    REQUIRE(!status.ok());
    for (int i = 0; i < 3; ++i) {  // the step above was the first call in vain
      engine.submit(r);
      const std::vector<Outcome> outcomes = engine.take_outcomes();
      CHECK(outcomes.back().error == "fake: error: worker 3 waited");
      CHECK(outcomes.back().new_ids.empty());
      CHECK(engine.check().ok() == (i == 2));
    }
    CHECK(engine.stats().recoveries == 1);
    CHECK(engine.free_pages() == kFakeLimits.pages);
    engine.submit(r);
    while (!engine.idle()) REQUIRE(engine.step().ok());
    CHECK(engine.take_outcomes().back().new_ids ==
          fake_generate(r.prompt, r.max_new_tokens, {}, kFakeLimits.vocab));
    CHECK(engine.check().ok());
    CHECK(engine.stats().recoveries == 1);
  }
}

}  // namespace
}  // namespace mkrt
