// Samples tokens on the host, as the kernel does (codegen/device/sample.cc): the same id, bit for bit.
#pragma once

#include <span>
#include <vector>

#include "runtime/abi/sampling.h"
#include "runtime/base/status.h"

namespace mkrt {

// Errors: a value outside the range that MkSampling gives, by the field's name.
Status check_sampling(const MkSampling& sampling);

// Ids that a repetition penalty applies to: bit id % 32 of word id / 32.
using SeenIds = std::vector<uint32_t>;
inline void see(SeenIds& seen, uint32_t id) {
  seen[id / 32] |= 1u << id % 32;
}

struct TokenLogprob {
  int32_t id;
  float logprob;  // natural, of the softmax of the logits as they are; kMaxLogit below for a masked token

  bool operator==(const TokenLogprob&) const = default;
};

struct Sampled {
  int32_t id;
  float logprob = 0;              // where asked for
  std::vector<TokenLogprob> top;  // the likeliest first, of equal ones the lowest id

  bool operator==(const Sampled&) const = default;
};

// One sample from a row of 1 to kMaxVocab logits. `seen` may be empty: nothing is penalised.
// Requires check_sampling.
Sampled sample(std::span<const float> logits, const MkSampling& sampling,
               std::span<const uint32_t> seen = {});

// What the filters leave: ids in ascending order with their masses. Requires a temperature above 0.
struct Candidate {
  uint32_t id;
  float logit;  // penalised
  uint64_t mass;
};
std::vector<Candidate> survivors(std::span<const float> logits, const MkSampling& sampling,
                                 std::span<const uint32_t> seen = {});

}  // namespace mkrt
