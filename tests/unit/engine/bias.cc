// Requests with biases get the tokens of a loop written from the definitions, however many steps a launch
// has.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "tests/unit/engine/fake_model.h"

namespace mkrt {
namespace {

constexpr BatchLimits kLimits = {
    .max_tokens = 8, .max_requests = 4, .context = 64, .vocab = 30, .page_size = 16, .pages = 16};

constexpr int32_t kEngineStops[] = {3, 9};

// Returns the ids that end a request.
std::vector<int32_t> stops_of(const Request& r) {
  std::vector<int32_t> stops = r.stop_ids;
  if (!r.ignore_engine_stops) stops.insert(stops.end(), std::begin(kEngineStops), std::end(kEngineStops));
  return stops;
}

// Returns the greedy tokens of a request without a repetition penalty. The engine has kEngineStops.
std::vector<int32_t> by_definition(const Request& r) {
  const std::vector<int32_t> stops = stops_of(r);
  std::vector<int32_t> forbidden = r.stop_ids;
  forbidden.insert(forbidden.end(), std::begin(kEngineStops), std::end(kEngineStops));
  std::vector<int32_t> history = r.prompt, made;
  std::map<int32_t, float> times;
  while (made.size() < r.max_new_tokens) {
    std::vector<float> logits = fake_logits(history, kLimits.vocab);
    for (const LogitBias& bias : r.bias.logit_bias) logits[static_cast<size_t>(bias.id)] += bias.value;
    for (const auto& [id, n] : times)
      logits[static_cast<size_t>(id)] -= r.bias.presence_penalty + r.bias.frequency_penalty * n;
    if (made.size() < r.bias.min_new_tokens)
      for (const int32_t id : forbidden) logits[static_cast<size_t>(id)] = -INFINITY;
    for (size_t id = 0; id < logits.size() && !r.bias.allowed_ids.empty(); ++id)
      if (std::ranges::count(r.bias.allowed_ids, static_cast<int32_t>(id)) == 0) logits[id] = -INFINITY;
    const auto best = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
    made.push_back(best);
    history.push_back(best);
    ++times[best];
    if (std::ranges::count(stops, best) > 0) break;
  }
  return made;
}

Request request(std::vector<int32_t> prompt, uint32_t max_new_tokens, const BiasSettings& bias = {}) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_new_tokens = max_new_tokens;
  r.bias = bias;
  return r;
}

Request random_request(uint32_t seed) {
  std::mt19937 random(seed);
  Request r;
  r.prompt.resize(1 + random() % 12);
  for (int32_t& id : r.prompt) id = static_cast<int32_t>(random() % kLimits.vocab);
  r.max_new_tokens = 1 + random() % 20;
  r.arrive_at_step = random() % 6;
  if (random() % 2) r.bias.presence_penalty = static_cast<float>(random() % 9) / 4 - 1;
  if (random() % 2) r.bias.frequency_penalty = static_cast<float>(random() % 9) / 8 - 0.5f;
  if (random() % 2) r.bias.min_new_tokens = random() % 10;
  if (random() % 2) r.stop_ids = {static_cast<int32_t>(random() % kLimits.vocab)};
  r.ignore_engine_stops = random() % 3 == 0;
  for (int32_t id = 0; id < 30 && seed % 3 > 0; ++id)
    if (random() % 4 == 0) r.bias.logit_bias.push_back({id, random() % 3 ? 0.5f : -INFINITY});
  std::ranges::shuffle(r.bias.logit_bias, random);
  for (int32_t id = 0; id < 30 && seed % 5 == 0; ++id)
    if (random() % 2) r.bias.allowed_ids.push_back(id);
  return r;
}

void run(Engine& engine) {
  for (int step = 0; !engine.idle(); ++step) {
    REQUIRE(step < 1000);
    const Status status = engine.step();
    REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message));
  }
}

TEST_CASE("random requests with biases get the tokens of their definition, by launches of 1 step and of 4") {
  uint32_t stopped = 0, with_bias = 0;
  for (uint32_t seed = 0; seed < 60; ++seed)
    for (const uint32_t steps : {1u, 4u}) {
      CAPTURE(seed);
      CAPTURE(steps);
      FakeModel model(kLimits);
      Engine engine = Engine::open(model, {.stop_ids = {std::begin(kEngineStops), std::end(kEngineStops)},
                                           .steps_per_launch = steps})
                          .value();
      std::vector<Request> requests;
      for (uint32_t i = 0; i < 6; ++i) {
        requests.push_back(i % 3 == 2 ? request({1, 2}, 16) : random_request(seed * 6 + i));
        CHECK(engine.submit(requests.back()) == i);
      }
      run(engine);
      for (const Outcome& outcome : engine.take_outcomes()) {
        CAPTURE(outcome.id);
        const Request& r = requests[outcome.id];
        const std::vector<int32_t> stops = stops_of(r);
        CHECK(outcome.error == "");
        CHECK(outcome.new_ids == by_definition(r));
        stopped += outcome.reason == FinishReason::kStop;
        with_bias += outcome.new_ids != fake_generate(r.prompt, r.max_new_tokens, stops, kLimits.vocab);
      }
    }
  CHECK(stopped > 20);
  CHECK(with_bias > 200);
}

// Returns the sample limits of the launches of one request.
std::vector<uint32_t> limits_of(const BiasSettings& bias) {
  FakeModel model(kLimits);
  Engine engine = Engine::open(model, {.steps_per_launch = 4}).value();
  engine.submit(request({1}, 9, bias));
  run(engine);
  std::vector<uint32_t> limits;
  for (const FakeModel::Step& step : model.steps) limits.push_back(step.limits[0]);
  return limits;
}

TEST_CASE("a launch ends where the biases of a request change") {
  CHECK(limits_of({}) == std::vector<uint32_t>{4, 4, 1});
  CHECK(limits_of({.logit_bias = {{3, 1.0f}}}) == std::vector<uint32_t>{4, 4, 1});
  CHECK(limits_of({.presence_penalty = 0.5f}) == std::vector<uint32_t>(9, 1));
  CHECK(limits_of({.frequency_penalty = -0.5f}) == std::vector<uint32_t>(9, 1));
  CHECK(limits_of({.min_new_tokens = 6}) == std::vector<uint32_t>{4, 2, 3});
}

TEST_CASE("a penalty keeps counting with a repetition penalty and a temperature, whatever the launches") {
  std::vector<std::vector<int32_t>> found;
  for (const uint32_t steps : {1u, 4u}) {
    FakeModel model(kLimits);
    Engine engine = Engine::open(model, {.steps_per_launch = steps}).value();
    Request r = request({5, 6}, 30, {.presence_penalty = 1, .min_new_tokens = 9});
    r.sampling = {.repetition_penalty = 1.3f, .temperature = 0.7f, .seed = 5};
    r.stop_ids = {7, 8};
    engine.submit(r);
    engine.submit(request({9}, 20));
    run(engine);
    for (const Outcome& outcome : engine.take_outcomes()) found.push_back(outcome.new_ids);
  }
  REQUIRE(found.size() == 4);
  std::ranges::sort(found);
  CHECK(found[0] == found[1]);
  CHECK(found[2] == found[3]);
}

TEST_CASE("settings of biases that are wrong end their request alone, by name") {
  FakeModel model(kLimits);
  Engine engine = Engine::open(model, {.stop_ids = {3}}).value();
  const auto error = [&](const BiasSettings& bias) {
    Request r = request({1}, 16, bias);
    r.name = "r";
    engine.submit(r);
    const std::vector<Outcome> outcomes = engine.take_outcomes();
    return outcomes.empty() ? "" : outcomes[0].error;
  };
  CHECK(error({.logit_bias = {{30, 1}}}) == "r: error: logit_bias: found the id 30, expected 0 to 29");
  CHECK(error({.logit_bias = {{-1, 1}}}) == "r: error: logit_bias: found the id -1, expected 0 to 29");
  CHECK(error({.logit_bias = {{4, 1}, {3, 1}, {4, 2}}}) ==
        "r: error: logit_bias: found the id 4 twice, expected one value for an id");
  CHECK(error({.logit_bias = {{4, NAN}}}) ==
        "r: error: logit_bias: id 4 has the value nan, expected -1e+30 to 1e+30, or -inf");
  CHECK(error({.presence_penalty = 2.5f}) == "r: error: presence_penalty: is 2.5, expected -2 to 2");
  CHECK(error({.frequency_penalty = NAN}) == "r: error: frequency_penalty: is nan, expected -2 to 2");
  CHECK(error({.allowed_ids = {30}}) == "r: error: allowed_ids: found the id 30, expected 0 to 29");
  CHECK(error({.logit_bias = {{4, -INFINITY}}, .allowed_ids = {4}}) ==
        "r: error: logit_bias: found all ids forbidden, expected one that is left");
  CHECK(error({.min_new_tokens = 1, .allowed_ids = {3}}) ==
        "r: error: min_new_tokens: found only stop ids left to sample, expected another id");
  CHECK(error({.allowed_ids = {3}}) == "");
  run(engine);
  REQUIRE(engine.take_outcomes().size() == 1);
}

}  // namespace
}  // namespace mkrt
