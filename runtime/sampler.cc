#include "runtime/sampler.h"

namespace mkrt {

Sampler::Sampler(const MkSampling& sampling, std::span<const int32_t> prompt, size_t vocab)
    : sampling_(sampling) {
  if (sampling.repetition_penalty == 1) return;
  seen_.resize((vocab + 31) / 32);
  for (const int32_t id : prompt) see(seen_, static_cast<uint32_t>(id));
}

bool Sampler::needs_logits() const {
  return sampling_.temperature > 0 || sampling_.repetition_penalty != 1 || sampling_.logprobs > 0;
}

Drawn Sampler::next(int32_t greedy, std::span<const float> logits) {
  Drawn drawn = needs_logits() ? draw(logits, sampling_, seen_) : Drawn{greedy, 0, {}};
  if (!seen_.empty()) see(seen_, static_cast<uint32_t>(drawn.id));
  ++sampling_.position;
  return drawn;
}

}  // namespace mkrt
