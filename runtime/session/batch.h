// The host describes one launch by a batch: rows of several requests, the pages of their keys and values, and
// their samples.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/abi/abi.h"

namespace mkrt {

// PageTable has the cache's pages by request, in the order of their positions (CSR). Request b has pages
// index[begin[b]] to index[begin[b + 1] - 1]. A dense table [requests, width] has begin[b] = b * width.
struct PageTable {
  std::span<const int32_t> begin;  // [requests + 1]
  std::span<const int32_t> index;
};

// Samples says what one request samples in a launch. Each token is sampled in its own step, which feeds the
// token before.
//
// Sampling ends at a stop id or after `limit` tokens. Sampling also ends when the next token's position is
// beyond the request's pages or the context.
struct Samples {
  MkSampling sampling{};             // position: of the first sample
  uint32_t limit = 1;                // most tokens; 0: none, because the prompt goes on in the next launch
  std::span<const uint32_t> seen{};  // with a repetition penalty: [ceil(vocab / 32)], laid out like SeenIds
  std::span<const MkBias> biases{};  // by ascending id, at most one for an id
  std::span<const uint32_t> allowed{};  // [ceil(vocab / 32)], laid out like SeenIds; empty: every id
  std::span<const int32_t> stop_ids{};  // the last sampled token may be one of these
};

// last_sample() stands for a token: the one that request `request` of the launch before has sampled. The host
// need not know it yet.
constexpr int32_t last_sample(uint32_t request) {
  return -1 - static_cast<int32_t>(request);
}
// request_of_sample() is the inverse. Requires a negative token.
constexpr uint32_t request_of_sample(int32_t token) {
  return static_cast<uint32_t>(-1 - int64_t{token});
}

// ScoredRow asks for the log-probability of an id by the logits of a row, and for the `top` likeliest ids.
struct ScoredRow {
  int32_t row = 0;
  int32_t id = 0;
  uint32_t top = 0;  // at most kMaxTop
};

// Batch has requests one after the other. Rows [row_begin[b], row_begin[b + 1]) are request b's next tokens,
// and the last of them has position kv_len[b] - 1. A decode has one row, and a chunk of a prompt several.
struct Batch {
  std::span<const int32_t> tokens;     // [rows], ids or last_sample()
  std::span<const int32_t> row_begin;  // [requests + 1], from 0
  std::span<const int32_t> kv_len;     // [requests], positions in the cache, including this step's
  PageTable pages;
  std::span<const Samples> samples{};  // [requests]; empty: each samples one token greedily
  bool all_logits = false;             // logits are computed for every row, not only for each request's last
  // Session::step reads the logits of these rows, and computes them for every row. The launch has one step.
  std::span<const ScoredRow> scored{};

  size_t requests() const { return kv_len.size(); }
  // Returns the most steps that the launch may take: the largest `limit` of a request, and at least 1.
  uint32_t steps() const {
    uint32_t max = 1;
    for (const Samples& of : samples) max = std::max(max, of.limit);
    return max;
  }
  Samples samples_of(size_t request) const { return samples.empty() ? Samples{} : samples[request]; }
};

// kNotFiniteText says what is wrong with a request that has fewer tokens in StepResult::finite than were
// sampled.
constexpr const char* kNotFiniteText =
    "found no finite greatest logit for a new token, expected one: a weight is not finite, "
    "or a number is beyond its type";
// kPromptNotFiniteText says the same of a scored row.
constexpr const char* kPromptNotFiniteText =
    "found no finite greatest logit for a token of the prompt, expected one: a weight is not finite, "
    "or a number is beyond its type";

// StepResult has the tokens that a launch's requests sampled. No step has fed the last token of a request
// yet. A reused StepResult allocates no new memory.
struct StepResult {
  std::vector<uint32_t> begin;       // [requests + 1]: request b has ids[begin[b]] to ids[begin[b + 1] - 1]
  std::vector<int32_t> ids;          // in the order in which they were sampled
  std::vector<MkLogprobs> logprobs;  // one for each id, as far as its request asks; empty if none asks
  uint32_t steps = 0;                // steps that the launch ran
  std::vector<MkLogprobs> scored = {};  // one for each of Batch::scored, as score() gives them
  // [requests]: its tokens before the first one that was sampled from logits without a finite greatest one.
  std::vector<uint32_t> finite = {};

  std::span<const int32_t> of(size_t request) const {
    return std::span(ids).subspan(begin[request], begin[request + 1] - begin[request]);
  }
};

}  // namespace mkrt
