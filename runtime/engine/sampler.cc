#include "runtime/engine/sampler.h"

#include <algorithm>
#include <limits>

namespace mkrt {
namespace {

// Returns the index of an id's bias, which is added if there is none.
size_t place_of(std::vector<MkBias>& biases, uint32_t id) {
  const auto at = std::ranges::lower_bound(biases, id, {}, &MkBias::id);
  const auto index = static_cast<size_t>(at - biases.begin());
  if (at == biases.end() || at->id != id) biases.insert(at, {id, 0, 0});
  return index;
}

}  // namespace

Sampler::Sampler(const MkSampling& sampling, const BiasSettings& bias, std::span<const int32_t> prompt,
                 std::span<const int32_t> end_ids, size_t vocab)
    : sampling_(sampling),
      vocab_(static_cast<uint32_t>(vocab)),
      presence_penalty_(bias.presence_penalty),
      frequency_penalty_(bias.frequency_penalty),
      min_new_tokens_(bias.min_new_tokens) {
  if (min_new_tokens_ > 0) end_ids_.assign(end_ids.begin(), end_ids.end());
  const size_t words = (vocab + 31) / 32;
  if (sampling.repetition_penalty != 1) {
    seen_.resize(words);
    for (const int32_t id : prompt) see(seen_, static_cast<uint32_t>(id));
  }
  if (!bias.allowed_ids.empty()) allowed_.resize(words);
  for (const int32_t id : bias.allowed_ids) see(allowed_, static_cast<uint32_t>(id));
  for (const LogitBias& of : bias.logit_bias)
    if (of.value != 0) biases_.push_back({static_cast<uint32_t>(of.id), of.value, 0});
  std::ranges::sort(biases_, {}, &MkBias::id);
  times_.resize(biases_.size());
}

uint32_t Sampler::max_steps() const {
  if (counts()) return 1;
  return forbids_ends() ? min_new_tokens_ - sampled_ : std::numeric_limits<uint32_t>::max();
}

Samples Sampler::next(uint32_t limit, std::span<const int32_t> stop_ids) {
  Samples samples{
      .sampling = sampling_, .limit = limit, .seen = seen_, .allowed = allowed_, .stop_ids = stop_ids};
  if (limit == 0) return samples;
  samples.biases = biases_;
  if (!forbids_ends()) return samples;
  without_ends_ = biases_;
  for (const int32_t end : end_ids_)
    if (const auto id = static_cast<uint32_t>(end); id < vocab_)
      without_ends_[place_of(without_ends_, id)].before = kForbidden;
  samples.biases = without_ends_;
  return samples;
}

void Sampler::count(uint32_t id) {
  const size_t entries = biases_.size(), at = place_of(biases_, id);
  if (biases_.size() > entries) times_.insert(times_.begin() + static_cast<ptrdiff_t>(at), 0);
  const double penalty = double{presence_penalty_} + double{frequency_penalty_} * ++times_[at];
  biases_[at].after = static_cast<float>(-penalty);
}

void Sampler::took(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (!seen_.empty()) see(seen_, static_cast<uint32_t>(id));
    if (counts()) count(static_cast<uint32_t>(id));
  }
  sampling_.position += static_cast<uint32_t>(ids.size());
  sampled_ += static_cast<uint32_t>(ids.size());
}

void add_samples(const StepResult& result, size_t b, const MkSampling& sampling, size_t vocab,
                 std::vector<Sampled>& to) {
  for (size_t i = result.begin[b]; i < result.begin[b + 1]; ++i) {
    if (sampling.logprobs == 0)
      to.push_back({.id = result.ids[i], .top = {}});
    else
      to.push_back(
          from_abi(result.ids[i], result.logprobs[i], std::min<size_t>(sampling.logprobs - 1, vocab)));
  }
}

}  // namespace mkrt
