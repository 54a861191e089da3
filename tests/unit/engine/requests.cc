// These tests check what a request may ask for, and what its sender sees of it.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/engine/fake_model.h"

namespace mkrt {
namespace {

std::vector<int32_t> alone(const Request& r) {
  return fake_generate(r.prompt, r.max_new_tokens, {}, kFakeLimits.vocab, r.sampling);
}

void run(Engine& engine) {
  for (int step = 0; !engine.idle(); ++step) {
    REQUIRE(step < 1000);
    REQUIRE(engine.step().ok());
  }
}

// Runs the engine until it is idle, and returns the outcomes in the order of their ids.
std::vector<Outcome> outcomes_of(Engine& engine) {
  run(engine);
  std::vector<Outcome> outcomes = engine.take_outcomes();
  std::ranges::sort(outcomes, {}, &Outcome::id);
  return outcomes;
}

TEST_CASE("a streamed request's tokens are handed out by launch, in the order of sampling") {
  FakeModel model(kFakeLimits);
  Engine engine = Engine::open(model, {.steps_per_launch = 2}).value();
  std::vector<Request> requests = {counting_request(2, 3), counting_request(3, 3, 50),
                                   counting_request(1, 5, 90)};
  requests[0].stream = requests[2].stream = true;
  requests[2].sampling.logprobs = 1 + 2;
  for (const Request& r : requests) engine.submit(r);
  CHECK(engine.take_progress().empty());
  std::vector<std::vector<uint64_t>> ids;
  std::vector<int32_t> first, third;
  std::vector<Sampled> samples;
  while (!engine.idle()) {
    REQUIRE(engine.step().ok());
    ids.emplace_back();
    for (const Progress& progress : engine.take_progress()) {
      ids.back().push_back(progress.id);
      std::vector<int32_t>& to = progress.id == 0 ? first : third;
      to.insert(to.end(), progress.ids.begin(), progress.ids.end());
      samples.insert(samples.end(), progress.samples.begin(), progress.samples.end());
    }
    CHECK(engine.take_progress().empty());
  }
  CHECK(ids == std::vector<std::vector<uint64_t>>{{0, 2}, {0, 2}, {2}});
  CHECK(first == alone(requests[0]));
  CHECK(third == alone(requests[2]));
  const std::vector<Outcome> outcomes = engine.take_outcomes();
  REQUIRE(outcomes.size() == 3);
  CHECK(outcomes[2].id == 2);
  CHECK(outcomes[2].new_ids == third);
  CHECK(outcomes[2].samples == samples);
  CHECK(samples.size() == 5);
}

TEST_CASE("progress that nobody takes stays in the order of sampling") {
  FakeModel model(kFakeLimits);
  Engine engine = Engine::open(model).value();
  std::vector<Request> requests = {counting_request(2, 2), counting_request(3, 2, 50)};
  for (Request& r : requests) {
    r.stream = true;
    engine.submit(r);
  }
  run(engine);
  const std::vector<int32_t> a = alone(requests[0]), b = alone(requests[1]);
  CHECK(engine.take_progress() ==
        std::vector<Progress>{{0, {a[0]}, {}}, {1, {b[0]}, {}}, {0, {a[1]}, {}}, {1, {b[1]}, {}}});
}

TEST_CASE("a request ends at its own stop ids, and at the engine's unless it ignores them") {
  const Request r = counting_request(5, 9);
  const std::vector<int32_t> free = alone(r);
  for (const bool ignores : {false, true})
    for (const uint32_t steps : {1u, 4u}) {
      CAPTURE(ignores);
      FakeModel model(kFakeLimits);
      Engine engine = Engine::open(model, {.stop_ids = {free[3]}, .steps_per_launch = steps}).value();
      std::vector<Request> requests(3, r);
      requests[1].stop_ids = {free[6], free[3]};
      requests[2].stop_ids = {free[5]};
      requests[2].ignore_engine_stops = ignores;
      for (const Request& each : requests) engine.submit(each);
      const std::vector<Outcome> outcomes = outcomes_of(engine);
      const auto first = [&](size_t count) { return std::vector(free.begin(), free.begin() + count); };
      CHECK(outcomes[0].new_ids == first(4));
      CHECK(outcomes[1].new_ids == first(4));
      CHECK(outcomes[2].new_ids == first(ignores ? 6 : 4));
      for (const Outcome& outcome : outcomes) CHECK(outcome.reason == FinishReason::kStop);
    }
  FakeModel model(kFakeLimits);
  Engine engine = Engine::open(model, {.stop_ids = {free[3]}}).value();
  Request endless = r;
  endless.ignore_engine_stops = true;
  engine.submit(endless);
  const Outcome outcome = outcomes_of(engine).at(0);
  CHECK(outcome.new_ids == free);
  CHECK(outcome.reason == FinishReason::kLength);
}

TEST_CASE("a stop id outside the vocabulary is refused") {
  FakeModel model(kFakeLimits);
  Engine engine = Engine::open(model).value();
  Request r = counting_request(1, 1);
  for (const int32_t id : {1000, -1}) {
    r.stop_ids = {7, id};
    engine.submit(r);
  }
  const std::vector<Outcome> outcomes = outcomes_of(engine);
  CHECK(outcomes[0].error == "request 0: error: stop_ids: entry 1 has the id 1000, expected 0 to 999");
  CHECK(outcomes[1].error == "request 1: error: stop_ids: entry 1 has the id -1, expected 0 to 999");
}

TEST_CASE("a cancelled request ends with its tokens so far, wherever it is") {
  BatchLimits limits = kFakeLimits;
  limits.max_requests = 1;
  FakeModel model(limits);
  Engine engine = Engine::open(model).value();
  const std::vector<Request> requests = {counting_request(2, 9), counting_request(3, 2, 50),
                                         counting_request(1, 5, 90), counting_request(1, 2, 7)};
  for (const Request& r : requests) engine.submit(r);
  Request late = counting_request(4, 4);
  late.arrive_at_step = 60;
  CHECK(engine.submit(late) == 4);
  CHECK(!engine.cancel(5));
  for (int step = 0; step < 3; ++step) REQUIRE(engine.step().ok());
  CHECK(engine.stats().running == 1);
  CHECK(engine.stats().waiting == 4);
  CHECK(engine.stats().pages_used == 1);
  for (const uint64_t id : {0, 2, 4}) {
    CHECK(engine.cancel(id));
    CHECK(!engine.cancel(id));
  }
  CHECK(engine.stats().running == 0);
  CHECK(engine.stats().waiting == 2);
  CHECK(engine.free_pages() == limits.pages);
  const std::vector<Outcome> cancelled = engine.take_outcomes();
  REQUIRE(cancelled.size() == 3);
  std::vector<int32_t> begun = alone(requests[0]);
  begun.resize(3);
  CHECK(cancelled[0].new_ids == begun);
  CHECK(cancelled[1].new_ids.empty());
  for (size_t i = 0; i < 3; ++i) {
    CHECK(cancelled[i].id == 2 * i);
    CHECK(cancelled[i].reason == FinishReason::kCancelled);
    CHECK(cancelled[i].error == "");
  }
  CHECK(std::string(finish_reason_name(cancelled[0].reason)) == "cancelled");
  const std::vector<Outcome> others = outcomes_of(engine);
  REQUIRE(others.size() == 2);
  CHECK(others[0].new_ids == alone(requests[1]));
  CHECK(others[1].new_ids == alone(requests[3]));
  CHECK(!engine.cancel(1));
  CHECK(engine.clock() == 3 + 2 + 2);
}

TEST_CASE("beside decodes, prompts have no more rows than the bound") {
  FakeModel model(kFakeLimits);
  Engine engine = Engine::open(model, {.max_rows_beside_decodes = 3}).value();
  // No request decodes in the first step.
  engine.submit(counting_request(7, 6));
  engine.submit(counting_request(9, 1));
  engine.submit(counting_request(3, 1));
  run(engine);
  std::vector<std::vector<int32_t>> ends;
  for (const FakeModel::Step& step : model.steps) ends.push_back(step.row_begin);
  CHECK(ends ==
        std::vector<std::vector<int32_t>>{{0, 7, 8}, {0, 1, 4}, {0, 1, 4}, {0, 1, 3, 4}, {0, 1, 3}, {0, 1}});
}

// Returns the ids of the requests in the order in which they finished.
std::vector<uint64_t> finished(Engine& engine) {
  run(engine);
  std::vector<uint64_t> ids;
  for (const Outcome& outcome : engine.take_outcomes()) ids.push_back(outcome.id);
  return ids;
}

TEST_CASE("a smaller priority number is admitted first, and equal ones first come, first served") {
  BatchLimits limits = kFakeLimits;
  limits.max_requests = 1;
  FakeModel model(limits);
  Engine engine = Engine::open(model).value();
  for (const int32_t priority : {0, 2, 1, -1, 1}) {
    Request r = counting_request(2, 3);
    r.priority = priority;
    engine.submit(r);
  }
  Request late = counting_request(2, 3);
  late.priority = -5;
  late.arrive_at_step = 4;
  engine.submit(late);
  CHECK(finished(engine) == std::vector<uint64_t>{3, 0, 5, 2, 4, 1});
}

TEST_CASE("a prompt of a smaller priority number takes the rows of one that runs, but no decode's row") {
  FakeModel model(kFakeLimits);
  Engine engine = Engine::open(model).value();
  engine.submit(counting_request(1, 9));
  engine.submit(counting_request(30, 1));
  Request urgent = counting_request(10, 1);
  urgent.priority = -1;
  urgent.arrive_at_step = 1;
  engine.submit(urgent);
  CHECK(finished(engine) == std::vector<uint64_t>{2, 1, 0});
  std::vector<std::vector<int32_t>> lengths;
  for (const FakeModel::Step& step : model.steps) lengths.push_back(step.kv_len);
  // The urgent request stands first in the second and third launch. The second launch has no row of the
  // request with 30 tokens, and the third one has 4.
  lengths.resize(4);
  CHECK(lengths == std::vector<std::vector<int32_t>>{{1, 7}, {7, 2}, {10, 3, 11}, {4, 18}});
}

TEST_CASE("the last of the running requests is preempted, which has the greatest priority number") {
  BatchLimits limits = kFakeLimits;
  limits.pages = 4;
  FakeModel model(limits);
  Engine engine = Engine::open(model, {.preemption = Preemption::kRecompute}).value();
  std::vector<Request> requests(3, counting_request(10, 30));
  requests[0].priority = 1;
  requests[1].priority = 3;
  requests[2].priority = 2;
  for (const Request& r : requests) engine.submit(r);
  // Request 1 has arrived before request 2, but gives up its pages first.
  std::vector<uint64_t> ids;
  run(engine);
  CHECK(engine.stats().preemptions > 0);
  for (const Outcome& outcome : engine.take_outcomes()) {
    ids.push_back(outcome.id);
    CHECK(outcome.new_ids == alone(requests[outcome.id]));
  }
  CHECK(ids == std::vector<uint64_t>{0, 2, 1});
  CHECK(engine.free_pages() == limits.pages);
}

TEST_CASE("a waiting request takes neither place nor pages of one that runs, whatever its priority") {
  BatchLimits limits = kFakeLimits;
  limits.pages = 3;
  FakeModel model(limits);
  Engine engine = Engine::open(model, {.preemption = Preemption::kRecompute}).value();
  engine.submit(counting_request(20, 4));
  Request urgent = counting_request(20, 4);
  urgent.priority = -1;
  urgent.arrive_at_step = 1;
  engine.submit(urgent);
  CHECK(finished(engine) == std::vector<uint64_t>{0, 1});
  CHECK(engine.stats().preemptions == 0);
}

}  // namespace
}  // namespace mkrt
