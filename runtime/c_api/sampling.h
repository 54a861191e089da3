// Sampling settings and log-probabilities are converted from and to the forms of mkrt.h.
#pragma once

#include "runtime/abi/abi.h"
#include "runtime/c_api/versions.h"
#include "runtime/session/sample.h"

namespace mkrt {

// Converts a caller's settings; NULL means greedy samples. Returns false, and keeps the error, if their size
// is none of a version.
inline bool take_sampling(const mkrt_sampling* from, MkSampling& out) {
  out = {};
  if (!from) return true;
  mkrt_sampling s;
  if (!take(from, s)) return false;
  out = {s.repetition_penalty, s.temperature, s.top_k, s.top_p, s.min_p, s.logprobs, s.seed, s.position, 0};
  return true;
}

static_assert(sizeof(mkrt_logprobs) == sizeof(MkLogprobs));
static_assert(offsetof(mkrt_logprobs, top_id) == offsetof(MkLogprobs, top_id));
static_assert(offsetof(mkrt_logprobs, rank) == offsetof(MkLogprobs, rank));

inline MkLogprobs logprobs_of(const Sampled& sampled) {
  MkLogprobs out{};
  out.sampled = sampled.logprob;
  out.rank = sampled.rank;
  for (size_t i = 0; i < sampled.top.size(); ++i) {
    out.top[i] = sampled.top[i].logprob;
    out.top_id[i] = static_cast<uint32_t>(sampled.top[i].id);
  }
  return out;
}

// Copies log-probabilities to entry i of a caller's list, whose entries have `size` bytes.
inline void give_logprobs(const MkLogprobs& from, mkrt_logprobs* list, uint32_t size, size_t i) {
  std::memcpy(reinterpret_cast<std::byte*>(list) + i * size, &from, size);
}

}  // namespace mkrt
