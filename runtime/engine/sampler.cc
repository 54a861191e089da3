#include "runtime/engine/sampler.h"

#include <algorithm>

namespace mkrt {

Sampler::Sampler(const MkSampling& sampling, std::span<const int32_t> prompt, size_t vocab)
    : sampling_(sampling) {
  if (sampling.repetition_penalty == 1) return;
  seen_.resize((vocab + 31) / 32);
  for (const int32_t id : prompt) see(seen_, static_cast<uint32_t>(id));
}

void Sampler::took(std::span<const int32_t> ids) {
  for (const int32_t id : ids)
    if (!seen_.empty()) see(seen_, static_cast<uint32_t>(id));
  sampling_.position += static_cast<uint32_t>(ids.size());
}

void add_samples(const StepResult& result, size_t b, const MkSampling& sampling, size_t vocab,
                 std::vector<Sampled>& to) {
  for (size_t i = result.begin[b]; i < result.begin[b + 1]; ++i) {
    Sampled& sampled = to.emplace_back(Sampled{result.ids[i], 0, {}});
    if (sampling.logprobs == 0) continue;
    const MkLogprobs& of = result.logprobs[i];
    sampled.logprob = of.sampled;
    for (size_t n = 0; n < std::min<size_t>(sampling.logprobs - 1, vocab); ++n)
      sampled.top.push_back({static_cast<int32_t>(of.top_id[n]), of.top[n]});
  }
}

}  // namespace mkrt
