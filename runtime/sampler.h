// Draws the tokens of one request on the host, one after the other.
#pragma once

#include "runtime/draw.h"

namespace mkrt {

class Sampler {
 public:
  Sampler() = default;  // greedy
  // The draws count up from sampling.position. Requires check_sampling, and ids of the prompt below `vocab`.
  Sampler(const MkSampling& sampling, std::span<const int32_t> prompt, size_t vocab);

  // False where a draw is the greedy successor alone.
  bool needs_logits() const;

  bool wants_logprobs() const { return sampling_.logprobs > 0; }

  // The next token. `logits`: [vocab], of the last token fed, where needs_logits(); else `greedy` is taken.
  Drawn next(int32_t greedy, std::span<const float> logits);

 private:
  MkSampling sampling_;
  SeenIds seen_;  // where there is a penalty
};

}  // namespace mkrt
