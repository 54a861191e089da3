// The host samples, too. The ids equal those of the kernel (codegen/device/sample.cc) bit for bit.
#pragma once

#include <span>
#include <vector>

#include "runtime/abi/abi.h"
#include "runtime/base/status.h"

namespace mkrt {

// Checks the fields against the ranges of MkSampling. Errors name the field.
Status check_sampling(const MkSampling& sampling);

// SeenIds is the set of ids that a repetition penalty applies to: bit id % 32 of word id / 32.
using SeenIds = std::vector<uint32_t>;
inline void see(SeenIds& seen, uint32_t id) {
  seen[id / 32] |= 1u << id % 32;
}

struct TokenLogprob {
  int32_t id;
  float logprob;  // natural, of the softmax of unchanged logits; masked tokens: about -kMaxLogit

  bool operator==(const TokenLogprob&) const = default;
};

struct Sampled {
  int32_t id;
  float logprob = 0;              // 0 unless asked for
  std::vector<TokenLogprob> top;  // the likeliest first; of equal ones the lowest id first
  uint32_t rank = 0;              // how many logits are at least as great as the id's; 0 unless asked for

  bool operator==(const Sampled&) const = default;
};

// LogitChanges are what one request changes in its logits. An empty span changes nothing.
struct LogitChanges {
  std::span<const uint32_t> seen{};     // ids that the repetition penalty applies to, laid out like SeenIds
  std::span<const MkBias> biases{};     // by ascending id
  std::span<const uint32_t> allowed{};  // laid out like SeenIds: all other ids are masked
};

// Sets `begin` to MkSample::bias_begin of biases that check_batch has passed. `begin` has an entry for each
// block of ids and one more, or none.
void index_biases(std::span<const MkBias> biases, std::span<uint32_t> begin);

// Returns one sample from a row of 1 to kMaxVocab logits. Requires check_sampling.
Sampled sample(std::span<const float> logits, const MkSampling& sampling, const LogitChanges& changes = {});

// Returns an id with its log-probability, its rank, and the `top` likeliest ids, of 1 to kMaxVocab logits.
// Requires an id of these. The log-probability is NaN where the greatest logit is not finite.
Sampled score(std::span<const float> logits, int32_t id, uint32_t top);

// to_abi() writes log-probabilities as the kernel does. from_abi() reads them back, with the `top` likeliest
// ids that were asked for.
MkLogprobs to_abi(const Sampled& sampled);
Sampled from_abi(int32_t id, const MkLogprobs& logprobs, size_t top);

// survivors() returns the candidates that the filters leave: ids in ascending order with their masses.
// Requires a temperature above 0.
struct Candidate {
  uint32_t id;
  float logit;  // with the request's changes
  uint64_t mass;
};
std::vector<Candidate> survivors(std::span<const float> logits, const MkSampling& sampling,
                                 const LogitChanges& changes = {});

}  // namespace mkrt
