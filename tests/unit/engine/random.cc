#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/unit/engine/fake_model.h"

namespace mkrt {
namespace {

uint32_t sample(std::mt19937& random, uint32_t low, uint32_t high) {
  return low + random() % (high - low + 1);
}

// Workload is a set of random requests with random limits. The narrowest limits leave no room for two
// requests.
struct Workload {
  BatchLimits limits;
  EngineOptions options;
  std::vector<Request> requests;

  explicit Workload(uint32_t seed) {
    std::mt19937 random(seed);
    limits.page_size = 16u << random() % 3;
    limits.context = sample(random, 1, 200);
    limits.max_tokens = random() % 4 ? sample(random, 1, 40) : sample(random, 100, 256);
    limits.max_requests = sample(random, 1, 12);
    const bool sampled = seed % 8 == 0;
    limits.vocab = sampled ? sample(random, 2, 40) : sample(random, 2, 3000);
    const auto longest = static_cast<uint32_t>(pages_for(limits.context, limits.page_size));
    limits.pages = sample(random, longest, longest * (random() % 2 ? 2 : 8));
    options.preemption = random() % 2 ? Preemption::kRecompute : Preemption::kNone;
    options.steps_per_launch = seed % 3 ? 1 + seed % 11 : 1;
    for (uint32_t stops = sample(random, 0, 2); stops > 0; --stops)
      options.stop_ids.push_back(static_cast<int32_t>(random() % limits.vocab));
    const uint32_t spread = random() % 3 ? 20 : 0;
    for (uint32_t count = sample(random, 1, 20); count > 0; --count) {
      Request r;
      r.prompt.resize(sample(random, 1, random() % 2 ? limits.context : 1 + limits.context / 8));
      for (int32_t& token : r.prompt) token = static_cast<int32_t>(random() % limits.vocab);
      r.max_new_tokens = sample(random, 1, limits.context - static_cast<uint32_t>(r.prompt.size()) + 1);
      r.arrive_at_step = sample(random, 0, spread);
      if (sampled && random() % 3) {
        r.sampling.temperature = static_cast<float>(random() % 3);
        r.sampling.repetition_penalty = random() % 2 ? 1.5f : 1.0f;
        r.sampling.seed = random();
      }
      requests.push_back(std::move(r));
    }
  }
};

// Runs the workload to its end, and returns the outcomes in the order of their ids.
std::vector<Outcome> run(const Workload& w, FakeModel& model, EngineStats& stats) {
  Engine engine = Engine::open(model, w.options).value();
  for (const Request& r : w.requests) engine.submit(r);
  std::vector<Outcome> outcomes(w.requests.size());
  size_t finished = 0;
  for (int step = 0; !engine.idle(); ++step) {
    REQUIRE(step < 20'000);
    const Status status = engine.step();
    if (!status.ok()) FAIL(status.error().message);
    for (Outcome& outcome : engine.take_outcomes()) {
      ++finished;
      outcomes.at(outcome.id) = std::move(outcome);
    }
  }
  CHECK(finished == w.requests.size());
  CHECK(engine.free_pages() == w.limits.pages);
  stats = engine.stats();
  return outcomes;
}

TEST_CASE("in any mix every request gets the tokens it gets alone") {
  uint64_t preemptions = 0, mixed = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    const Workload w(seed);
    FakeModel model(w.limits);
    EngineStats stats;
    const std::vector<Outcome> outcomes = run(w, model, stats);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      const Request& r = w.requests[i];
      const std::vector<int32_t> alone =
          fake_generate(r.prompt, r.max_new_tokens, w.options.stop_ids, w.limits.vocab, r.sampling);
      REQUIRE(outcomes[i].error == "");
      REQUIRE(outcomes[i].new_ids == alone);
      const bool stop = std::ranges::find(w.options.stop_ids, alone.back()) != w.options.stop_ids.end();
      CHECK(outcomes[i].reason == (stop ? FinishReason::kStop : FinishReason::kLength));
    }
    if (w.options.preemption == Preemption::kNone) CHECK(stats.preemptions == 0);
    preemptions += stats.preemptions;
    for (const FakeModel::Step& step : model.steps)
      mixed += step.row_begin.size() > 2 && step.tokens.size() >= step.row_begin.size();
  }
  // The workloads must cause preemptions, and launches of several requests of which one has several rows.
  CHECK(preemptions > 1000);
  CHECK(mixed > 1000);
}

TEST_CASE("the same requests give the same steps, pages included") {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Workload w(seed);
    FakeModel first(w.limits), second(w.limits);
    EngineStats stats;
    run(w, first, stats);
    run(w, second, stats);
    CHECK(first.steps == second.steps);
  }
}

TEST_CASE("both policies feed every row once, but for those of requests that gave up their pages") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const Workload w(seed);
    FakeModel model(w.limits);
    EngineStats stats;
    uint64_t needed = 0;
    for (const Outcome& outcome : run(w, model, stats))
      needed += w.requests[outcome.id].prompt.size() + outcome.new_ids.size() - 1;
    if (stats.preemptions)
      CHECK(stats.rows >= needed);
    else
      CHECK(stats.rows == needed);
    CHECK(stats.launches == model.steps.size());
  }
}

}  // namespace
}  // namespace mkrt
