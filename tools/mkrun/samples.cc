#include "tools/mkrun/samples.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/engine/sampler.h"

namespace mkrt {
namespace {

constexpr float kLogprobError = 1e-5f;  // kernel and host are within 3e-6 of exact arithmetic

struct Parameters {
  MkSampling sampling;
  BiasSettings bias;
};

// Returns parameters of every kind: greedy sampling without and with a penalty, then a temperature. The
// temperature is used without filters, with each filter, and with all filters. The last two have biases.
std::vector<Parameters> some_parameters(size_t vocab) {
  std::vector<MkSampling> all(8);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].seed = i;
    all[i].temperature = i < 2 ? 0.0f : 0.7f + 0.1f * static_cast<float>(i);
  }
  all[1].repetition_penalty = 1.3f;
  all[3].top_k = 40;
  all[4].top_p = 0.9f;
  all[5].min_p = 0.05f;
  all[6].logprobs = 1 + kMaxTop;
  all[7] = {.repetition_penalty = 1.2f,
            .temperature = 1.5f,
            .top_k = 50,
            .top_p = 0.95f,
            .min_p = 0.01f,
            .logprobs = 1 + 3,
            .seed = 77};
  std::vector<Parameters> parameters;
  for (const MkSampling& sampling : all) parameters.push_back({sampling, {}});
  BiasSettings bias{.presence_penalty = 0.5f, .frequency_penalty = 0.25f};
  for (size_t id = 0; id < vocab; id += 7) {
    const bool forbids = id % 2 == 0;
    bias.logit_bias.push_back({static_cast<int32_t>(id), forbids ? -INFINITY : 1.5f});
  }
  parameters.push_back({all[1], bias});
  for (size_t id = 1; id < vocab; id += 2) bias.allowed_ids.push_back(static_cast<int32_t>(id));
  parameters.push_back({all[7], bias});
  return parameters;
}

bool same(const Sampled& a, const Sampled& b) {
  const auto near = [](float x, float y) { return std::fabs(x - y) <= kLogprobError * (1 + std::fabs(y)); };
  bool equal = a.id == b.id && near(a.logprob, b.logprob) && a.top.size() == b.top.size();
  for (size_t i = 0; equal && i < a.top.size(); ++i)
    equal = a.top[i].id == b.top[i].id && near(a.top[i].logprob, b.top[i].logprob);
  return equal;
}

}  // namespace

Result<nlohmann::json> compare_samples(Session& session, std::span<const int32_t> prompt, uint32_t count) {
  const size_t vocab = session.manifest().vocab;
  const std::vector<Parameters> parameters = some_parameters(vocab);
  uint32_t different = 0, samples = 0;
  nlohmann::json out;
  for (size_t s = 0; s < parameters.size(); ++s) {
    std::vector<float> logits;
    std::vector<Sampled> found;
    GenerateOptions options;
    options.max_new_tokens = count;
    options.sampling = parameters[s].sampling;
    options.bias = parameters[s].bias;
    options.logits = &logits;
    options.samples = &found;
    session.set_position(0);
    const Result<std::vector<int32_t>> tokens = generate(session, prompt, options);
    if (!tokens.ok()) return tokens.error();
    Sampler sampler(parameters[s].sampling, parameters[s].bias, prompt, {}, vocab);
    for (size_t i = 0; i < found.size(); ++i, ++samples) {
      const std::span row = std::span(logits).subspan((prompt.size() - 1 + i) * vocab, vocab);
      const Samples next = sampler.next(1);
      const Sampled wanted = sample(row, next.sampling, {next.seen, next.biases, next.allowed});
      if (!same(found[i], wanted) && different++ == 0)
        out = {{"sampling", s}, {"number", i}, {"found", found[i].id}, {"expected", wanted.id}};
      sampler.took({&found[i].id, 1});
    }
  }
  out["samples"] = samples;
  out["different"] = different;
  return out;
}

}  // namespace mkrt
