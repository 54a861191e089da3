// The state of a request's sampling from one launch to the next.
#pragma once

#include "runtime/session/batch.h"
#include "runtime/session/sample.h"

namespace mkrt {

class Sampler {
 public:
  Sampler() = default;  // greedy
  // Samples begin at sampling.position and count up. Requires check_sampling, and prompt ids below `vocab`.
  Sampler(const MkSampling& sampling, std::span<const int32_t> prompt, size_t vocab);

  // Returns the description of the request's next samples, at most `limit`. The result is valid as long as
  // the sampler and until took().
  Samples next(uint32_t limit) const { return {sampling_, limit, seen_}; }

  // Tells the sampler which ids were sampled.
  void took(std::span<const int32_t> ids);

  const MkSampling& sampling() const { return sampling_; }

 private:
  MkSampling sampling_;
  SeenIds seen_;  // set where there is a penalty
};

// Appends request b's samples of a launch to `to`, with the log-probabilities that `sampling` asked for.
void add_samples(const StepResult& result, size_t b, const MkSampling& sampling, size_t vocab,
                 std::vector<Sampled>& to);

}  // namespace mkrt
