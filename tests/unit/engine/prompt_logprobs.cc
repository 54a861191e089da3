// These tests check the log-probabilities of prompts, which the engine has from the logits of each fed row.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/unit/engine/fake_model.h"

namespace mkrt {
namespace {

constexpr uint32_t kTop = 2;

// Returns a prompt that has its first tokens in common with other prompts.
Request request(std::mt19937& random, uint32_t max_new_tokens) {
  Request r;
  for (int32_t i = 0; i < 18; ++i) r.prompt.push_back(i);
  for (uint32_t more = random() % 12; more > 0; --more)
    r.prompt.push_back(static_cast<int32_t>(random() % kFakeLimits.vocab));
  r.max_new_tokens = max_new_tokens;
  return r;
}

// Returns what the definition gives: each token's score by the logits behind the tokens before it.
std::vector<Sampled> expected_of(const std::vector<int32_t>& prompt) {
  std::vector<Sampled> samples;
  for (size_t i = 1; i < prompt.size(); ++i)
    samples.push_back(score(fake_logits(std::span(prompt).first(i), kFakeLimits.vocab), prompt[i], kTop));
  return samples;
}

TEST_CASE("each token of a prompt but the first has the log-probability by the tokens before it") {
  std::mt19937 random(5);
  for (uint64_t round = 0; round < 60; ++round) {
    CAPTURE(round);
    FakeModel model(kFakeLimits);
    if (round % 3 == 2) model.fail_at = round % 7, model.failures = 1;
    EngineOptions options{.prefix_cache = round % 2 == 1, .steps_per_launch = 4};
    if (round % 4 >= 2) options.preemption = Preemption::kRecompute;
    Engine engine = Engine::open(model, options).value();
    std::vector<Request> requests;
    for (uint32_t i = 0; i < 6; ++i) {
      requests.push_back(request(random, 1 + i * 5));
      requests.back().prompt_logprobs = i % 3 == 1 ? 0 : 1 + kTop;
      requests.back().arrive_at_step = random() % 10;
      engine.submit(requests.back());
    }
    while (!engine.idle()) REQUIRE(engine.step().ok());
    CHECK(engine.free_pages() == kFakeLimits.pages);
    const std::vector<Outcome> outcomes = engine.take_outcomes();
    REQUIRE(outcomes.size() == requests.size());
    uint64_t looked_up = 0;  // a prompt of one token has no log-probabilities that its pages could lack
    for (const Request& r : requests)
      if (r.prompt_logprobs == 0 || r.prompt.size() == 1) looked_up += r.prompt.size();
    CHECK(engine.stats().prefix_queries == (options.prefix_cache ? looked_up : 0));
    for (const Outcome& outcome : outcomes) {
      const Request& r = requests[outcome.id];
      CHECK(outcome.new_ids == fake_generate(r.prompt, r.max_new_tokens, {}, kFakeLimits.vocab));
      CHECK(outcome.prompt_samples ==
            (r.prompt_logprobs > 0 ? expected_of(r.prompt) : std::vector<Sampled>()));
      if (r.prompt_logprobs > 0) CHECK(outcome.cached_tokens == 0);
    }
  }
}

TEST_CASE("a stream has the log-probabilities of its prompt beside its first tokens") {
  FakeModel model(kFakeLimits);
  Engine engine = Engine::open(model, {.steps_per_launch = 4}).value();
  std::mt19937 random(1);
  Request r = request(random, 9);
  r.prompt_logprobs = 1 + kTop;
  r.stream = true;
  engine.submit(r);
  while (!engine.idle()) REQUIRE(engine.step().ok());
  const std::vector<Progress> progress = engine.take_progress();
  REQUIRE(progress.size() == 3);
  CHECK(progress[0].prompt_samples == expected_of(r.prompt));
  CHECK(progress[1].prompt_samples.empty());
  // The logits of a further step would take the place of those that are read.
  CHECK(progress[0].ids.size() == 1);
  CHECK(progress[1].ids.size() == 4);
}

TEST_CASE("a prompt of one token has no log-probabilities, and 21 likeliest ids are too many") {
  FakeModel model(kFakeLimits);
  Engine engine = Engine::open(model).value();
  Request r;
  r.prompt = {5};
  r.max_new_tokens = 2;
  r.prompt_logprobs = 1 + kMaxTop;
  engine.submit(r);
  r.prompt_logprobs = 2 + kMaxTop;
  engine.submit(r);
  while (!engine.idle()) REQUIRE(engine.step().ok());
  const std::vector<Outcome> outcomes = engine.take_outcomes();
  REQUIRE(outcomes.size() == 2);
  CHECK(outcomes[0].error == "request 1: error: prompt_logprobs: found 21, expected at most 20");
  CHECK(outcomes[1].prompt_samples.empty());
  CHECK(outcomes[1].new_ids == fake_generate({5}, 2, {}, kFakeLimits.vocab));
}

TEST_CASE("a prompt whose logits are not finite ends its request alone, in whatever chunk they come") {
  for (const size_t at : {0, 5, 11, 19}) {
    CAPTURE(at);
    FakeModel model(kFakeLimits);
    Engine engine = Engine::open(model, {.steps_per_launch = 4}).value();
    std::vector<Request> requests(3, counting_request(21, 3, 30));
    requests[1] = counting_request(9, 3, 100);
    for (Request& r : requests) r.prompt_logprobs = 1 + kTop;
    requests[2].prompt_logprobs = 0;
    model.nan_behind = requests[0].prompt[at];
    for (const Request& r : requests) engine.submit(r);
    while (!engine.idle()) REQUIRE(engine.step().ok());
    CHECK(engine.free_pages() == kFakeLimits.pages);
    std::vector<Outcome> outcomes = engine.take_outcomes();
    REQUIRE(outcomes.size() == 3);
    std::ranges::sort(outcomes, {}, &Outcome::id);
    CHECK(outcomes[0].reason == FinishReason::kError);
    CHECK(outcomes[0].error_kind == ErrorKind::kNotFinite);
    CHECK(outcomes[0].error ==
          "logits: error: found no finite greatest logit for a token of the prompt, expected one: "
          "a weight is not finite, or a number is beyond its type");
    CHECK(outcomes[0].new_ids.empty());
    CHECK(outcomes[1].prompt_samples == expected_of(requests[1].prompt));
    for (const size_t i : {1, 2})
      CHECK(outcomes[i].new_ids == fake_generate(requests[i].prompt, 3, {}, kFakeLimits.vocab));
  }
}

}  // namespace
}  // namespace mkrt
