// These tests compare tokens sampled inside the kernel with the host's samples from the kernel's logits,
// alone and in a batch.
#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "runtime/engine/engine.h"
#include "runtime/engine/sampler.h"
#include "runtime/engine/session_stepper.h"
#include "tests/e2e/pipeline.h"
#include "tests/reference/model.h"

namespace mkc {
namespace {

using mkrt::MkSampling;

// The parameters have every kind: greedy, each filter, a penalty, and log-probabilities with and without a
// temperature.
const MkSampling kSamplings[] = {
    {},
    {.temperature = 0.7f, .seed = 1},
    {.temperature = 1, .top_k = 5, .logprobs = 1, .seed = 2},
    {.repetition_penalty = 1.3f, .temperature = 1.5f, .top_p = 0.8f, .seed = 3, .position = 40},
    {.temperature = 1, .min_p = 0.05f, .logprobs = 1 + 20, .seed = 4},
    {.repetition_penalty = 0.5f, .logprobs = 1 + 3},
};

TEST_CASE("the kernel samples what the host samples from its logits") {
  const test::Model model(test::random_weights("llama"), {.workers = 3, .race = true, .max_tokens = 5});
  const uint64_t vocab = model.vocab();
  for (const MkSampling& sampling : kSamplings) {
    CAPTURE(sampling.seed);
    test::Opened opened = model.open({}, {.seed = 1, .race = true});
    std::vector<float> logits;
    std::vector<mkrt::Sampled> samples;
    mkrt::GenerateOptions options;
    options.max_new_tokens = 4;
    options.sampling = sampling;
    options.logits = &logits, options.samples = &samples;
    const std::vector<int32_t> prompt = test::prompt_of(7, vocab);
    const auto tokens = mkrt::generate(opened.session, prompt, options);
    REQUIRE_MESSAGE(tokens.ok(), tokens.error().message);
    mkrt::SeenIds seen((vocab + 31) / 32);
    for (const int32_t id : prompt) mkrt::see(seen, static_cast<uint32_t>(id));
    for (size_t i = 0; i < 4; ++i, ++options.sampling.position) {
      const std::span row = std::span(logits).subspan((prompt.size() - 1 + i) * vocab, vocab);
      CHECK(samples[i] == mkrt::sample(row, options.sampling, {seen}));
      CHECK(tokens.value()[i] == samples[i].id);
      mkrt::see(seen, static_cast<uint32_t>(samples[i].id));
    }
  }
}

// Returns biases of some ids, and settings that change with each token.
mkrt::BiasSettings biases(uint64_t vocab) {
  mkrt::BiasSettings bias{.presence_penalty = 0.75f, .frequency_penalty = 0.5f, .min_new_tokens = 3};
  for (uint64_t id = 2; id < vocab; id += 5)
    bias.logit_bias.push_back({static_cast<int32_t>(id), id % 2 ? 1.25f : -INFINITY});
  return bias;
}

// Returns what a request with biases adds to its logits for the next token, from the definitions.
std::vector<mkrt::MkBias> biases_after(const mkrt::BiasSettings& bias, const std::vector<int32_t>& made,
                                       const std::vector<int32_t>& stops) {
  std::map<int32_t, mkrt::MkBias> of;
  for (const mkrt::LogitBias& b : bias.logit_bias) of[b.id].before = b.value;
  for (const int32_t id : made) of[id].after = -bias.presence_penalty;
  for (const int32_t id : made) of[id].after -= bias.frequency_penalty;
  for (const int32_t id : stops)
    if (made.size() < bias.min_new_tokens) of[id].before = -INFINITY;
  std::vector<mkrt::MkBias> out;
  for (auto& [id, b] : of) out.push_back({static_cast<uint32_t>(id), b.before, b.after});
  return out;
}

TEST_CASE("the kernel samples with biases what the host samples from its logits") {
  const test::Model model(test::random_weights("llama"), {.workers = 3, .race = true, .max_tokens = 5});
  const uint64_t vocab = model.vocab();
  const std::vector<int32_t> prompt = test::prompt_of(7, vocab);
  uint32_t ended = 0;
  for (const MkSampling& sampling : kSamplings) {
    CAPTURE(sampling.seed);
    std::vector<float> logits;
    std::vector<mkrt::Sampled> samples;
    mkrt::GenerateOptions options;
    options.max_new_tokens = 6;
    options.sampling = sampling;
    options.bias = biases(vocab);
    for (int32_t id = 0; id < static_cast<int32_t>(vocab); id += 3) options.stop_ids.push_back(id);
    options.logits = &logits, options.samples = &samples;
    test::Opened opened = model.open({}, {.seed = 1, .race = true}), other = model.open();
    const auto tokens = mkrt::generate(opened.session, prompt, options);
    REQUIRE_MESSAGE(tokens.ok(), tokens.error().message);
    mkrt::SeenIds seen((vocab + 31) / 32);
    for (const int32_t id : prompt) mkrt::see(seen, static_cast<uint32_t>(id));
    std::vector<int32_t> made;
    for (size_t i = 0; i < samples.size(); ++i, ++options.sampling.position) {
      const std::span row = std::span(logits).subspan((prompt.size() - 1 + i) * vocab, vocab);
      const std::vector<mkrt::MkBias> list = biases_after(options.bias, made, options.stop_ids);
      const std::span used =
          sampling.repetition_penalty != 1 ? std::span<const uint32_t>(seen) : std::span<const uint32_t>();
      CHECK(samples[i] == mkrt::sample(row, options.sampling, {used, list}));
      made.push_back(samples[i].id);
      mkrt::see(seen, static_cast<uint32_t>(made.back()));
    }
    CHECK(made == tokens.value());
    CHECK((made.size() == 6 || (made.size() > 3 && made.back() % 3 == 0)));
    ended += made.size() < 6;
    options.logits = nullptr, options.samples = nullptr, options.sampling = sampling;
    options.steps_per_launch = 4;
    CHECK(mkrt::generate(other.session, prompt, options).value() == made);
  }
  CHECK(ended > 0);
}

TEST_CASE("what is sampled does not depend on whether logits of all rows are wanted, or only of the last") {
  for (const auto type : {reference::Type::kF32, reference::Type::kBf16}) {
    CAPTURE(reference::type_name(type));
    const test::Model model(test::random_weights("llama", type),
                            {.workers = 3, .race = true, .max_tokens = 40});
    for (const size_t length : {1, 7, 20, 33, 61}) {
      CAPTURE(length);
      std::vector<float> logits;
      std::vector<mkrt::Sampled> all, last;
      mkrt::GenerateOptions options;
      options.max_new_tokens = 3;
      options.sampling = kSamplings[2];
      options.samples = &last;
      test::Opened one = model.open({}, {.race = true}), other = model.open({}, {.race = true});
      const std::vector<int32_t> prompt = test::prompt_of(length, model.vocab());
      const auto tokens = mkrt::generate(one.session, prompt, options);
      REQUIRE_MESSAGE(tokens.ok(), tokens.error().message);
      options.logits = &logits, options.samples = &all;
      CHECK(mkrt::generate(other.session, prompt, options).value() == tokens.value());
      CHECK(all == last);
    }
  }
}

TEST_CASE("requests of a batch sample what each samples alone, and log-probabilities are the same") {
  const test::Model model(test::random_weights("qwen3_moe"), {.workers = 3, .max_tokens = 8});
  test::Opened opened = model.open();
  mkrt::SessionStepper stepper(opened.session);
  mkrt::Engine engine = mkrt::Engine::open(stepper).value();
  std::vector<mkrt::Request> requests;
  for (const MkSampling& sampling : kSamplings) {
    mkrt::Request& r = requests.emplace_back();
    r.prompt = test::prompt_of(1 + requests.size() * 3, model.vocab());
    r.max_new_tokens = 3 + static_cast<uint32_t>(requests.size());
    r.sampling = sampling;
    r.arrive_at_step = requests.size() / 2;
    if (requests.size() % 2 == 0) r.bias = biases(model.vocab());
    engine.submit(r);
  }
  while (!engine.idle()) REQUIRE(engine.step().ok());
  for (const mkrt::Outcome& outcome : engine.take_outcomes()) {
    CAPTURE(outcome.id);
    const mkrt::Request& r = requests[outcome.id];
    test::Opened alone = model.open();
    std::vector<mkrt::Sampled> samples;
    mkrt::GenerateOptions options;
    options.max_new_tokens = r.max_new_tokens;
    options.sampling = r.sampling;
    options.bias = r.bias;
    options.samples = &samples;
    CHECK(outcome.new_ids == mkrt::generate(alone.session, r.prompt, options).value());
    if (r.sampling.logprobs > 0) CHECK(outcome.samples == samples);
  }
}

}  // namespace
}  // namespace mkc
