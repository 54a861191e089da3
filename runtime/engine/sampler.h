// What a request's samples go by, from one launch to the next.
#pragma once

#include "runtime/session/batch.h"
#include "runtime/session/sample.h"

namespace mkrt {

class Sampler {
 public:
  Sampler() = default;  // greedy
  // The samples count up from sampling.position. Requires check_sampling, and ids of the prompt below
  // `vocab`.
  Sampler(const MkSampling& sampling, std::span<const int32_t> prompt, size_t vocab);

  // Its next samples, at most `limit`. Valid as long as this and until took().
  Samples next(uint32_t limit) const { return {sampling_, limit, seen_}; }

  // These were sampled.
  void took(std::span<const int32_t> ids);

  const MkSampling& sampling() const { return sampling_; }

 private:
  MkSampling sampling_;
  SeenIds seen_;  // where there is a penalty
};

// Adds request b's samples of a launch, with the log-probabilities that `sampling` asked for.
void add_samples(const StepResult& result, size_t b, const MkSampling& sampling, size_t vocab,
                 std::vector<Sampled>& to);

}  // namespace mkrt
