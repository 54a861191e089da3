// These tests compare a launch of several steps with as many launches of one step.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/engine/engine.h"
#include "runtime/engine/sampler.h"
#include "runtime/engine/session_stepper.h"
#include "tests/e2e/pipeline.h"
#include "tests/reference/model.h"

namespace mkc {
namespace {

using mkrt::MkSampling;

const MkSampling kGreedy{}, kWarm{.temperature = 1.2f, .top_k = 40, .top_p = 0.95f, .seed = 5},
    kPenalised{.repetition_penalty = 1.4f, .temperature = 0.9f, .logprobs = 1 + 4, .seed = 6, .position = 9};

// Returns a model whose weights have codes. A prompt of 9 to 16 tokens multiplies some of them by another
// variant than later steps.
reference::Model coded_weights(reference::Coding coding) {
  reference::Shape shape;
  shape.type = reference::Type::kBf16;
  shape.hidden = 64, shape.ffn = 96, shape.heads = 4, shape.kv_heads = 2, shape.head_dim = 32;
  shape.coding = coding;
  shape.code_group = 32;
  return reference::random_model(shape, 31);
}

struct Generated {
  std::vector<int32_t> tokens;
  std::vector<mkrt::Sampled> samples;
  uint32_t position = 0;
  bool operator==(const Generated&) const = default;
};

Generated generate(const test::Model& model, mkrt::GenerateOptions options, uint32_t steps,
                   const mkrt::EmulatorDeviceOptions& device = {}) {
  test::Opened opened = model.open({}, device);
  Generated out;
  options.samples = &out.samples;
  options.steps_per_launch = steps;
  const auto tokens = mkrt::generate(opened.session, test::prompt_of(11, model.vocab()), options);
  REQUIRE_MESSAGE(tokens.ok(), tokens.error().message);
  out.tokens = tokens.value();
  out.position = opened.session.position();
  return out;
}

// On the emulator each model meets one way of sampling with all numbers of steps, and the others with two.
TEST_CASE("however many steps a launch has, the tokens are the same") {
  for (const char* family : {"llama", "qwen3_moe"}) {
    CAPTURE(family);
    const test::Model model(test::random_weights(family, reference::Type::kBf16),
                            {.workers = 3, .max_tokens = 8});
    const MkSampling& thorough = family == std::string("llama") ? kPenalised : kWarm;
    for (const MkSampling& sampling : {kGreedy, kWarm, kPenalised}) {
      mkrt::GenerateOptions options;
      options.max_new_tokens = 18;
      options.sampling = sampling;
      const Generated one = generate(model, options, 1);
      CHECK(one.tokens.size() == 18);
      CHECK(one.position == 11 + 17);
      const bool all = test::on_processor() || sampling.seed == thorough.seed;
      for (const uint32_t steps : {5u, 100u, 2u, 16u}) {
        if (!all && steps == 2) break;
        CAPTURE(steps);
        CHECK(generate(model, options, steps) == one);
      }
      if (!all) continue;
      options.stop_ids = {one.tokens[6], -1};
      CHECK(generate(model, options, 16) == generate(model, options, 1));
      options.stop_ids = {};
      size_t told = 0;
      options.on_token = [&](int32_t) { return ++told % 4 != 0; };
      const Generated cut = generate(model, options, 1);
      CHECK(cut.tokens.size() == 4);
      CHECK(generate(model, options, 16) == cut);
    }
  }
}

TEST_CASE("weights with codes stream the same way in the steps of a launch, after a longer prompt") {
  using enum reference::Coding;
  for (const reference::Coding coding : {kE4m3Rows, kE4m3Blocks, kPacked, kNvfp4}) {
    CAPTURE(reference::coding_name(coding));
    const test::Model model(coded_weights(coding), {.workers = 3, .max_tokens = 16});
    mkrt::GenerateOptions options;
    options.max_new_tokens = 8;
    CHECK(generate(model, options, 4) == generate(model, options, 1));
  }
}

TEST_CASE(
    "strips come in the blocks of the step they are for, where its loader runs ahead of the one before") {
  reference::Shape shape;
  shape.type = reference::Type::kBf16;
  shape.ffn = 1100;  // a strip of `down` has several tiles, whose order depends on the block
  const test::Model model(reference::random_model(shape, 31), {.workers = 1, .max_tokens = 20});
  mkrt::GenerateOptions options;
  options.max_new_tokens = 4;
  CHECK(generate(model, options, 4) == generate(model, options, 1));
}

TEST_CASE(
    "a kernel for each grid, launched as often, samples the tokens of one launch, and stops where it does") {
  const test::Model one(test::random_weights("qwen3_moe", reference::Type::kBf16),
                        {.workers = 3, .max_tokens = 8});
  const test::Model many(test::random_weights("qwen3_moe", reference::Type::kBf16),
                         {.workers = 3, .race = true, .max_tokens = 8, .mode = Mode::kKernels});
  mkrt::GenerateOptions options;
  options.max_new_tokens = 9;
  options.sampling = kWarm;
  const Generated expected = generate(one, options, 4);
  CHECK(generate(many, options, 4) == expected);
  options.stop_ids = {expected.tokens[5]};
  CHECK(generate(many, options, 8) == generate(one, options, 8));
}

TEST_CASE("nothing in a launch of several steps is unordered") {
  for (const bool bulk_copy : {true, false})
    for (const char* family : {"llama", "qwen3_moe"}) {
      CAPTURE(family);
      const test::Model model(test::random_weights(family, reference::Type::kF32),
                              {.workers = 4, .bulk_copy = bulk_copy, .race = true, .max_tokens = 20});
      mkrt::GenerateOptions options;
      options.max_new_tokens = 4;
      options.sampling = kPenalised;
      const Generated one = generate(model, options, 1, {.race = true});
      for (uint64_t seed = 1; seed < 4; ++seed)
        CHECK(generate(model, options, 4, {.seed = seed, .race = true}) == one);
    }
}

TEST_CASE("requests of a launch stop each at its own end, and the others go on") {
  const test::Model model(test::random_weights("llama", reference::Type::kBf16),
                          {.workers = 3, .max_tokens = 40});
  const uint64_t vocab = model.vocab();
  mkrt::SessionOptions session_options;
  session_options.cache.pages = 16;
  const auto launch = [&](const std::vector<mkrt::Samples>& samples, size_t pages_of_third) {
    test::Opened opened = model.open(session_options);
    std::vector<int32_t> tokens, row_begin{0}, kv_len, page_begin{0}, page_index;
    for (const size_t rows : {5, 1, 14, 17}) {
      const std::vector<int32_t> prompt = test::prompt_of(rows, vocab);
      tokens.insert(tokens.end(), prompt.begin(), prompt.end());
      row_begin.push_back(static_cast<int32_t>(tokens.size()));
      kv_len.push_back(static_cast<int32_t>(rows));
      for (size_t page = 0; page < (rows == 14 ? pages_of_third : 3); ++page)
        page_index.push_back(15 - static_cast<int32_t>(page_index.size()));
      page_begin.push_back(static_cast<int32_t>(page_index.size()));
    }
    mkrt::StepResult result;
    const mkrt::Status status =
        opened.session.step({tokens, row_begin, kv_len, {page_begin, page_index}, samples}, result);
    REQUIRE_MESSAGE(status.ok(), status.error().message);
    return result;
  };
  std::vector<mkrt::Samples> samples(4);
  for (mkrt::Samples& d : samples) d.limit = 9, d.sampling = kWarm;
  const mkrt::StepResult all = launch(samples, 3);
  CHECK(all.ids.size() == 4 * 9);
  CHECK(all.steps == 9);

  // The first request ends at a stop id, the third at the end of its page, the last at its limit. The second
  // samples nothing. A step of one row alone may have other last bits with 2-byte weights. The compared
  // tokens come from steps of several rows.
  const std::vector<int32_t> stop_ids{-7, all.of(0)[3]};
  samples[0].stop_ids = stop_ids;
  samples[1].limit = 0;
  const mkrt::StepResult some = launch(samples, 1);
  const auto begins = [&](size_t b, size_t count) {
    const std::span<const int32_t> got = some.of(b), full = all.of(b);
    CHECK(got.size() == count);
    CHECK(std::equal(got.begin(), got.end(), full.begin()));
  };
  size_t first = 0;
  while (all.of(0)[first] != stop_ids[1]) ++first;
  begins(0, first + 1);
  begins(1, 0);
  begins(2, 3);  // two of the three are fed, at positions 14 and 15
  CHECK(some.of(3).size() == 9);
  CHECK(some.steps == 9);
}

TEST_CASE("a launch goes on behind a token without finite logits, and stops at its id") {
  reference::Model lost = test::random_weights("llama", reference::Type::kBf16);
  lost.weights.at("model.norm.weight")[0] = NAN;
  const test::Model model(lost, {.workers = 3});
  const std::vector<int32_t> stop_ids{0};
  for (const bool stops : {false, true}) {
    bool not_finite = false;
    mkrt::GenerateOptions options;
    options.max_new_tokens = 4;
    options.not_finite = &not_finite;
    if (stops) options.stop_ids = stop_ids;
    CHECK(generate(model, options, 4).tokens == std::vector<int32_t>(stops ? 1 : 4));
    CHECK(not_finite);
  }
}

// Returns what requests of one row each sample in `steps` launches. With `ahead`, a launch begins before the
// one before has ended, and its inputs are the samples of that launch. Requests change places each time.
std::vector<std::vector<int32_t>> in_turn(const test::Model& model, bool ahead, uint32_t steps) {
  mkrt::SessionOptions options;
  options.cache.pages = 6;
  test::Opened opened = model.open(options);
  std::vector<int32_t> tokens{5, 9, 14};
  std::vector<std::vector<int32_t>> out;
  const auto end = [&] {
    mkrt::StepResult result;
    REQUIRE(opened.session.end_step(result).ok());
    out.push_back(result.ids);
  };
  std::vector<mkrt::Samples> warm(3);
  for (mkrt::Samples& of : warm) of.sampling = kWarm;
  for (uint32_t step = 0; step < steps; ++step) {
    const std::vector<int32_t> rows{0, 1, 2, 3}, kv_len(3, static_cast<int32_t>(step + 1)), begin{0, 1, 2, 3};
    std::vector<int32_t> pages;
    for (uint32_t b = 0; b < 3; ++b) {
      const uint32_t request = (b + step) % 3;  // its place in the step before is one further
      pages.push_back(static_cast<int32_t>(request));
      if (step > 0) tokens[b] = ahead ? mkrt::last_sample((b + 1) % 3) : out.back()[(b + 1) % 3];
    }
    for (mkrt::Samples& of : warm) of.sampling.position = step;
    REQUIRE(opened.session.begin_step({tokens, rows, kv_len, {begin, pages}, warm}).ok());
    if (!ahead || step > 0) end();
  }
  if (ahead) end();
  return out;
}

TEST_CASE("a launch takes the samples of the one before on the device, which the host does not know yet") {
  for (const Mode mode : {Mode::kMegakernel, Mode::kKernels}) {
    const test::Model model(test::random_weights("llama", reference::Type::kF32),
                            {.workers = 3, .race = true, .mode = mode});
    const std::vector<std::vector<int32_t>> expected = in_turn(model, false, 9);
    CHECK(expected.size() == 9);
    CHECK(expected[1] != expected[2]);
    CHECK(in_turn(model, true, 9) == expected);
  }
}

TEST_CASE("the engine gives the same outcomes for any number of steps a launch") {
  const test::Model model(test::random_weights("llama", reference::Type::kF32),
                          {.workers = 3, .max_tokens = 8, .max_requests = 4});
  mkrt::SessionOptions session_options;
  session_options.cache.pages = 9;
  std::vector<mkrt::Request> requests;
  for (uint32_t i = 0; i < 7; ++i) {
    mkrt::Request& r = requests.emplace_back();
    r.prompt = test::prompt_of(1 + i * 5 % 13, model.vocab());
    r.max_new_tokens = 3 + i * 4 % 17;
    r.sampling = std::array{kGreedy, kWarm, kPenalised}[i % 3];
    r.arrive_at_step = i * i / 3;
  }
  std::vector<mkrt::Outcome> expected;
  for (const mkrt::Preemption preemption : {mkrt::Preemption::kNone, mkrt::Preemption::kRecompute})
    for (const uint32_t steps : {1u, 2u, 5u, 16u}) {
      const bool preempts = preemption != mkrt::Preemption::kNone;
      if (!test::on_processor() && steps != 1 && preempts != (steps == 5)) continue;  // each number once
      CAPTURE(steps);
      test::Opened opened = model.open(session_options);
      mkrt::SessionStepper stepper(opened.session);
      mkrt::EngineOptions options;
      options.preemption = preemption;
      options.stop_ids = {3, 17};
      options.steps_per_launch = steps;
      mkrt::Engine engine = mkrt::Engine::open(stepper, options).value();
      for (const mkrt::Request& r : requests) engine.submit(r);
      while (!engine.idle()) REQUIRE(engine.step().ok());
      CHECK(engine.free_pages() == 9);
      CHECK((engine.stats().launches < engine.stats().steps) == (steps > 1));
      std::vector<mkrt::Outcome> outcomes = engine.take_outcomes();
      std::ranges::sort(outcomes, {}, &mkrt::Outcome::id);
      if (expected.empty()) expected = outcomes;
      REQUIRE(outcomes.size() == expected.size());
      for (size_t i = 0; i < outcomes.size(); ++i) {
        CHECK(outcomes[i].new_ids == expected[i].new_ids);
        CHECK(outcomes[i].samples == expected[i].samples);
        CHECK(outcomes[i].reason == expected[i].reason);
      }
    }
}

}  // namespace
}  // namespace mkc
