// A request's sampling has a state that lasts from one launch to the next.
#pragma once

#include "runtime/session/batch.h"
#include "runtime/session/bias.h"
#include "runtime/session/sample.h"

namespace mkrt {

class Sampler {
 public:
  Sampler() = default;  // greedy
  // Samples begin at sampling.position and count up. Requires check_sampling, check_bias, and prompt ids
  // below `vocab`. `end_ids` are forbidden before bias.min_new_tokens samples. Each stop id is one of them.
  Sampler(const MkSampling& sampling, const BiasSettings& bias, std::span<const int32_t> prompt,
          std::span<const int32_t> end_ids, size_t vocab);

  // Returns the most samples of a launch. The kernel uses the same biases for all samples of a launch, so a
  // launch ends where they change.
  uint32_t max_steps() const;

  // Returns the description of the request's next samples, at most `limit`, which end at a stop id. Requires
  // `limit` to be at most max_steps(). The result is valid as long as the sampler and the stop ids, and until
  // the next call.
  Samples next(uint32_t limit, std::span<const int32_t> stop_ids = {});

  // Tells the sampler which ids were sampled.
  void took(std::span<const int32_t> ids);

  const MkSampling& sampling() const { return sampling_; }

 private:
  bool counts() const { return presence_penalty_ != 0 || frequency_penalty_ != 0; }
  bool forbids_ends() const { return sampled_ < min_new_tokens_; }
  void count(uint32_t id);

  MkSampling sampling_;
  SeenIds seen_;  // set where there is a repetition penalty
  std::vector<uint32_t> allowed_;
  uint32_t vocab_ = 0;
  float presence_penalty_ = 0, frequency_penalty_ = 0;
  uint32_t min_new_tokens_ = 0, sampled_ = 0;  // sampled_: tokens so far
  std::vector<MkBias> biases_;                 // by id
  std::vector<uint32_t> times_;                // how often the id of each of biases_ was sampled
  std::vector<int32_t> end_ids_;               // where there is a least number of tokens
  std::vector<MkBias> without_ends_;           // biases_ that forbid end_ids_, too
};

// Appends request b's samples of a launch to `to`, with the log-probabilities that `sampling` asked for.
void add_samples(const StepResult& result, size_t b, const MkSampling& sampling, size_t vocab,
                 std::vector<Sampled>& to);

}  // namespace mkrt
