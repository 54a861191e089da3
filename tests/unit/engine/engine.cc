#include "runtime/engine/engine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "tests/unit/engine/fake_model.h"

namespace mkrt {
namespace {

Request request(size_t prompt, uint32_t max_new_tokens, uint64_t arrive_at_step = 0) {
  Request r;
  r.prompt.resize(prompt);
  std::iota(r.prompt.begin(), r.prompt.end(), static_cast<int32_t>(10 * arrive_at_step));
  r.max_new_tokens = max_new_tokens;
  r.arrive_at_step = arrive_at_step;
  return r;
}

// Runs the engine until it is idle, and returns the outcomes in the order of their ids.
std::vector<Outcome> run(Engine& engine) {
  for (int step = 0; !engine.idle(); ++step) {
    REQUIRE(step < 1000);
    REQUIRE(engine.step().ok());
  }
  std::vector<Outcome> outcomes = engine.take_outcomes();
  std::ranges::sort(outcomes, {}, &Outcome::id);
  return outcomes;
}

// Returns the rows of each request in each launch.
std::vector<std::vector<int32_t>> rows(const FakeModel& model) {
  std::vector<std::vector<int32_t>> steps;
  for (const FakeModel::Step& step : model.steps) {
    steps.emplace_back();
    for (size_t b = 0; b + 1 < step.row_begin.size(); ++b)
      steps.back().push_back(step.row_begin[b + 1] - step.row_begin[b]);
  }
  return steps;
}

std::string refusal(const Request& r, const BatchLimits& limits = kFakeLimits) {
  FakeModel model(limits);
  Engine engine = Engine::open(model).value();
  engine.submit(r);
  CHECK(engine.idle());
  const std::vector<Outcome> outcomes = engine.take_outcomes();
  REQUIRE(outcomes.size() == 1);
  CHECK(outcomes[0].reason == FinishReason::kError);
  return outcomes[0].error;
}

TEST_CASE("prompts are cut into chunks beside decodes, which come first") {
  FakeModel model(kFakeLimits);
  Engine engine = Engine::open(model).value();
  engine.submit(request(3, 4));
  engine.submit(request(20, 2));
  run(engine);
  CHECK(rows(model) == std::vector<std::vector<int32_t>>{{3, 5}, {1, 7}, {1, 7}, {1, 1}, {1}});
  CHECK(engine.stats().steps == 5);
  CHECK(engine.stats().rows == 27);
}

TEST_CASE("a request whose logits are not finite ends with an error, and the others go on") {
  FakeModel model(kFakeLimits);
  model.lost_at = 2;
  Engine engine = Engine::open(model).value();
  engine.submit(request(3, 6));
  engine.submit(request(4, 6));
  const std::vector<Outcome> outcomes = run(engine);
  REQUIRE(outcomes.size() == 2);
  CHECK(outcomes[0].reason == FinishReason::kError);
  CHECK(outcomes[0].error ==
        "logits: error: found no finite greatest logit for a new token, expected one: "
        "a weight is not finite, or a number is beyond its type");
  CHECK(outcomes[0].error_kind == ErrorKind::kNotFinite);
  CHECK(outcomes[0].new_ids.size() == 2);
  CHECK(outcomes[1].reason == FinishReason::kLength);
  CHECK(outcomes[1].new_ids == fake_generate(request(4, 6).prompt, 6, {}, kFakeLimits.vocab));
  CHECK(engine.free_pages() == kFakeLimits.pages);
}

TEST_CASE("tokens before the first one without finite logits are handed on, whatever launch they are of") {
  std::vector<Outcome> alone;
  for (const uint32_t steps : {1u, 4u}) {
    FakeModel model(kFakeLimits);
    model.lost_at = steps == 1 ? 2 : 0;
    model.lost_after = steps == 1 ? 0 : 2;
    Engine engine = Engine::open(model, {.steps_per_launch = steps}).value();
    Request streamed = request(3, 6);
    streamed.stream = true;
    streamed.sampling.logprobs = 1;
    engine.submit(streamed);
    std::vector<int32_t> handed_on;
    while (!engine.idle()) {
      REQUIRE(engine.step().ok());
      for (const Progress& p : engine.take_progress())
        handed_on.insert(handed_on.end(), p.ids.begin(), p.ids.end());
    }
    const std::vector<Outcome> outcomes = engine.take_outcomes();
    REQUIRE(outcomes.size() == 1);
    CHECK(outcomes[0].reason == FinishReason::kError);
    CHECK(outcomes[0].new_ids == fake_generate(request(3, 6).prompt, 2, {}, kFakeLimits.vocab));
    CHECK(outcomes[0].samples.size() == 2);
    CHECK(handed_on == outcomes[0].new_ids);
    CHECK(engine.stats().rows == (steps == 1 ? 5 : 6));
  }
}

TEST_CASE("requests join at their step, and idle steps are skipped") {
  FakeModel model(kFakeLimits);
  Engine engine = Engine::open(model).value();
  engine.submit(request(1, 2, 30));
  engine.submit(request(2, 3, 1));
  engine.submit(request(1, 4, 0));
  const std::vector<Outcome> outcomes = run(engine);
  CHECK(rows(model) == std::vector<std::vector<int32_t>>{{1}, {1, 2}, {1, 1}, {1, 1}, {1}, {1}});
  CHECK(engine.clock() == 32);
  for (const Outcome& outcome : outcomes) CHECK(outcome.reason == FinishReason::kLength);
}

TEST_CASE("a request that comes between steps joins the next one, behind those that were there before") {
  FakeModel model(kFakeLimits);
  Engine engine = Engine::open(model).value();
  engine.submit(request(1, 3));
  engine.submit(request(3, 1, 1));
  REQUIRE(engine.step().ok());
  CHECK(engine.submit(request(2, 1, 0)) == 2);
  run(engine);
  CHECK(rows(model) == std::vector<std::vector<int32_t>>{{1}, {1, 3, 2}, {1}});
}

TEST_CASE("no more requests run than the limits of requests and of tokens allow") {
  for (const auto& [max_tokens, max_requests] : {std::pair{8u, 2u}, {2u, 4u}}) {
    BatchLimits limits = kFakeLimits;
    limits.max_tokens = max_tokens;
    limits.max_requests = max_requests;
    FakeModel model(limits);
    Engine engine = Engine::open(model).value();
    for (int i = 0; i < 3; ++i) engine.submit(request(1, 2));
    run(engine);
    CHECK(rows(model) == std::vector<std::vector<int32_t>>{{1, 1}, {1, 1}, {1}, {1}});
  }
}

std::vector<std::vector<uint32_t>> draw_limits(const FakeModel& model) {
  std::vector<std::vector<uint32_t>> limits;
  for (const FakeModel::Step& step : model.steps) limits.push_back(step.limits);
  return limits;
}

TEST_CASE("a launch has several steps once no prompt waits, none beyond what a request wants") {
  FakeModel model(kFakeLimits);
  Engine engine = Engine::open(model, {.steps_per_launch = 4}).value();
  engine.submit(request(3, 7));
  engine.submit(request(20, 6));
  const std::vector<Outcome> outcomes = run(engine);
  for (const Outcome& outcome : outcomes) {
    const Request r = outcome.id ? request(20, 6) : request(3, 7);
    CHECK(outcome.new_ids == fake_generate(r.prompt, r.max_new_tokens, {}, kFakeLimits.vocab));
  }
  // The first three launches take 3 and 5, 1 and 7, 1 and 7 rows. The fourth takes the prompt's last row.
  CHECK(draw_limits(model) == std::vector<std::vector<uint32_t>>{{1, 0}, {1, 0}, {1, 0}, {4, 4}, {2}});
  CHECK(engine.clock() == 3 + 4 + 2);
  CHECK(engine.stats().launches == 5);
  CHECK(engine.stats().steps == 9);
  CHECK(engine.stats().rows == 3 + 6 + 20 + 5);
}

TEST_CASE("a launch has no more steps than a batch may ask for, whatever the options say") {
  constexpr BatchLimits kLong = {
      .max_tokens = 4, .max_requests = 1, .context = 4200, .vocab = 10, .page_size = 64, .pages = 66};
  FakeModel model(kLong);
  Engine engine = Engine::open(model, {.steps_per_launch = 5000}).value();
  engine.submit(request(3, 4190));
  const std::vector<Outcome> outcomes = run(engine);
  REQUIRE(outcomes.size() == 1);
  CHECK(outcomes[0].error == "");
  CHECK(outcomes[0].new_ids.size() == 4190);
  CHECK(draw_limits(model) == std::vector<std::vector<uint32_t>>{{kMaxSteps}, {94}});
}

TEST_CASE("a launch ends where a request arrives, or at the free pages, which are given back") {
  FakeModel model(kFakeLimits);
  Engine engine = Engine::open(model, {.steps_per_launch = 8}).value();
  engine.submit(request(1, 9));
  engine.submit(request(1, 1, 5));
  run(engine);
  CHECK(draw_limits(model) == std::vector<std::vector<uint32_t>>{{5}, {4, 1}});

  BatchLimits limits = kFakeLimits;
  limits.pages = 3;
  FakeModel narrow(limits);
  Engine recomputing =
      Engine::open(narrow, {.preemption = Preemption::kRecompute, .steps_per_launch = 30}).value();
  recomputing.submit(request(8, 40));
  recomputing.submit(request(8, 12));
  for (const Outcome& outcome : run(recomputing)) {
    const Request r = outcome.id ? request(8, 12) : request(8, 40);
    CHECK(outcome.new_ids == fake_generate(r.prompt, r.max_new_tokens, {}, limits.vocab));
  }
  CHECK(recomputing.free_pages() == 3);
}

TEST_CASE("a stop id ends a request and is kept") {
  FakeModel model(kFakeLimits);
  const Request r = request(5, 9);
  const std::vector<int32_t> free = fake_generate(r.prompt, 9, {}, kFakeLimits.vocab);
  Engine engine = Engine::open(model, {.stop_ids = {-1, free[3]}}).value();
  engine.submit(r);
  const Outcome outcome = run(engine).at(0);
  CHECK(outcome.new_ids == std::vector(free.begin(), free.begin() + 4));
  CHECK(outcome.reason == FinishReason::kStop);
  CHECK(outcome.error == "");
  CHECK(engine.free_pages() == kFakeLimits.pages);
}

TEST_CASE("each request is sampled by its own parameters, and only once its prompt is fed") {
  FakeModel model(kFakeLimits);
  Engine engine = Engine::open(model).value();
  std::vector<Request> requests(3, request(12, 5));
  requests[1].sampling = {.temperature = 2, .logprobs = 1 + 2, .seed = 7, .position = 3};
  requests[2].sampling = {.repetition_penalty = 100};
  for (const Request& r : requests) engine.submit(r);
  const std::vector<Outcome> outcomes = run(engine);
  for (size_t i = 0; i < 3; ++i)
    CHECK(outcomes[i].new_ids ==
          fake_generate(requests[i].prompt, 5, {}, kFakeLimits.vocab, requests[i].sampling));
  CHECK(outcomes[0].samples.empty());
  CHECK(outcomes[2].samples.empty());
  REQUIRE(outcomes[1].samples.size() == 5);
  std::vector<int32_t> history = requests[1].prompt;
  for (uint32_t n = 0; n < 5; ++n) {
    MkSampling now = requests[1].sampling;
    now.position += n;
    CHECK(outcomes[1].samples[n] == sample(fake_logits(history, kFakeLimits.vocab), now));
    CHECK(outcomes[1].samples[n].top.size() == 2);
    history.push_back(outcomes[1].new_ids[n]);
  }
  // The launches take 8 rows, then 4 and 4, 1 and 7, and twice 1, 1 and 6. All three requests are sampled
  // from launch 4 on.
  for (size_t i = 0; i < 3; ++i) CHECK(model.steps[i].limits.back() == 0);
  CHECK(model.steps[1].limits == std::vector<uint32_t>{1, 0});
  CHECK(model.steps[4].limits == std::vector<uint32_t>{1, 1, 1});
}

TEST_CASE("without eviction a request waits for pages of its longest, and those after it wait with it") {
  BatchLimits limits = kFakeLimits;
  limits.pages = 4;
  FakeModel model(limits);
  Engine engine = Engine::open(model).value();
  engine.submit(request(2, 47));  // 48 positions: 3 pages
  engine.submit(request(2, 16));  // 17 positions: 2 pages
  engine.submit(request(2, 1));
  run(engine);
  CHECK(model.steps.size() == 47 + 16);
  CHECK(rows(model)[46] == std::vector<int32_t>{1});
  CHECK(rows(model)[47] == std::vector<int32_t>{2, 2});
  CHECK(engine.stats().preemptions == 0);
}

TEST_CASE("with recomputing the youngest gives up its pages, and is fed again with its tokens so far") {
  BatchLimits limits = kFakeLimits;
  limits.pages = 3;
  FakeModel model(limits);
  Engine engine = Engine::open(model, {.preemption = Preemption::kRecompute}).value();
  engine.submit(request(14, 20));  // positions 0 to 32
  engine.submit(request(3, 18));   // positions 0 to 19
  const std::vector<Outcome> outcomes = run(engine);
  CHECK(engine.stats().preemptions == 1);
  CHECK(engine.free_pages() == limits.pages);
  for (const Outcome& outcome : outcomes) {
    const Request r = outcome.id ? request(3, 18) : request(14, 20);
    CHECK(outcome.new_ids == fake_generate(r.prompt, r.max_new_tokens, {}, limits.vocab));
  }
  // The second request needs another page for its position 16, but the first request has the two others. The
  // second request is fed again once the first has left. The chunks have its prompt and its 14 tokens.
  const auto steps = rows(model);
  const auto again = std::find(steps.begin() + 1, steps.end(), std::vector<int32_t>{8});
  CHECK(std::vector(again, steps.end()) == std::vector<std::vector<int32_t>>{{8}, {8}, {1}, {1}, {1}, {1}});
}

TEST_CASE("a request that can never run is refused at once, by its name and field") {
  Request named = request(0, 1);
  named.name = "f.jsonl:7";
  CHECK(refusal(named) == "f.jsonl:7: error: prompt: is empty, expected at least one token");
  CHECK(refusal(request(2, 0)) == "request 0: error: max_new_tokens: found 0, expected 1 or more");
  Request ids = request(3, 1);
  ids.prompt[2] = 1000;
  CHECK(refusal(ids) == "request 0: error: prompt: token 2 has the id 1000, expected 0 to 999");
  ids.prompt[1] = -4;
  CHECK(refusal(ids) == "request 0: error: prompt: token 1 has the id -4, expected 0 to 999");
  Request sampled = request(1, 1);
  sampled.sampling.top_p = 0;
  CHECK(refusal(sampled) == "request 0: error: top_p: is 0, expected more than 0, at most 1");
  Request late = request(1, 1);
  late.arrive_at_step = ~uint64_t{0};  // the clock would begin anew
  CHECK(refusal(late) ==
        "request 0: error: arrive_at_step: found 18446744073709551615, expected at most 9223372036854775807");
  CHECK(refusal(request(60, 6)) ==
        "request 0: error: prompt: 60 tokens and 6 new ones need 65 positions, the context has 64");
  BatchLimits limits = kFakeLimits;
  limits.pages = 2;
  CHECK(refusal(request(30, 4), limits) ==
        "request 0: error: prompt: 30 tokens and 4 new ones need 3 pages of 16 positions, the cache has 2");
  CHECK(
      refusal(request(1, UINT32_MAX)) ==
      "request 0: error: prompt: 1 tokens and 4294967295 new ones need 4294967295 positions, the context has "
      "64");
}

TEST_CASE("requests beside a refused one go on; one that fills context or cache exactly runs") {
  BatchLimits limits = kFakeLimits;
  limits.pages = 4;
  FakeModel model(limits);
  Engine engine = Engine::open(model).value();
  engine.submit(request(64, 2));
  engine.submit(request(60, 5));
  engine.submit(request(64, 1));
  const std::vector<Outcome> outcomes = run(engine);
  CHECK(outcomes[0].reason == FinishReason::kError);
  CHECK(outcomes[1].new_ids.size() == 5);
  CHECK(outcomes[2].new_ids.size() == 1);
}

TEST_CASE("a step that fails ends all requests with its error, and those to come") {
  FakeModel model(kFakeLimits);
  model.fail_at = 2;
  Engine engine = Engine::open(model).value();
  engine.submit(request(1, 1));
  engine.submit(request(1, 5));
  engine.submit(request(1, 5, 40));
  REQUIRE(engine.step().ok());
  REQUIRE(engine.step().ok());
  CHECK(engine.step().error().message == "fake: error: worker 3 waited");
  CHECK(engine.idle());
  engine.submit(request(1, 1));
  CHECK(engine.step().ok());
  CHECK(engine.free_pages() == kFakeLimits.pages);
  const std::vector<Outcome> outcomes = engine.take_outcomes();
  REQUIRE(outcomes.size() == 4);
  CHECK(outcomes[0].reason == FinishReason::kLength);
  for (size_t i = 1; i < 4; ++i) {
    CHECK(outcomes[i].id == i);
    CHECK(outcomes[i].reason == FinishReason::kError);
    CHECK(outcomes[i].error == "fake: error: worker 3 waited");
    CHECK(outcomes[i].new_ids.size() == (i == 1 ? 2 : 0));
  }
}

// OutOfMemory is a model whose second launch throws.
struct OutOfMemory final : Stepper {
  FakeModel model{kFakeLimits};
  BatchLimits limits() const override { return kFakeLimits; }
  Status step(const Batch& batch, StepResult& result) override {
    if (model.steps.size() == 1) throw std::bad_alloc();
    return model.step(batch, result);
  }
};

TEST_CASE("a launch without memory ends all requests before another one runs") {
  OutOfMemory model;
  Engine engine = Engine::open(model, {.steps_per_launch = 4}).value();
  for (int i = 0; i < 3; ++i) engine.submit(request(3, 20, i == 2 ? 90 : 0));
  REQUIRE(engine.step().ok());
  CHECK_THROWS_AS((void)engine.step(), std::bad_alloc);
  CHECK(engine.take_outcomes().empty());
  const Status status = engine.step();
  REQUIRE(!status.ok());
  CHECK(status.error().kind == ErrorKind::kNoMemory);
  CHECK(engine.idle());
  CHECK(engine.free_pages() == kFakeLimits.pages);
  const std::vector<Outcome> outcomes = engine.take_outcomes();
  REQUIRE(outcomes.size() == 3);
  for (const Outcome& outcome : outcomes) CHECK(outcome.error_kind == ErrorKind::kNoMemory);
  CHECK(model.model.steps.size() == 1);
}

TEST_CASE("limits that no step can keep are refused") {
  const auto error = [](BatchLimits limits) {
    FakeModel model(limits);
    return Engine::open(model).error().message;
  };
  BatchLimits limits = kFakeLimits;
  limits.max_requests = 0;
  CHECK(error(limits) == "max_requests: error: found 0, expected 1 or more");
  limits = kFakeLimits;
  limits.page_size = 24;
  CHECK(error(limits) == "page_size: error: found 24, supported: 16, 32, 64");
}

}  // namespace
}  // namespace mkrt
