// One launch's work on the host's side: rows of several requests, where their keys and values lie, and what
// is sampled after them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/abi/abi.h"

namespace mkrt {

// Pages of the cache by request, in the order of their positions: request b's are index[begin[b]] to
// index[begin[b + 1] - 1] (CSR). A dense table [requests, width] is the same with begin[b] = b * width.
struct PageTable {
  std::span<const int32_t> begin;  // [requests + 1]
  std::span<const int32_t> index;
};

// What one request samples in a launch: tokens, each in a step of its own that feeds the one before, until
// one is a stop id, there are `limit`, or the next one's position is beyond the request's pages or the
// context.
struct Samples {
  MkSampling sampling{};                // position: of the first sample
  uint32_t limit = 1;                   // tokens; 0: none, as its prompt goes on in the next launch
  std::span<const uint32_t> seen{};     // with a repetition penalty: [ceil(vocab / 32)], as SeenIds has them
  std::span<const int32_t> stop_ids{};  // the last token sampled may be one of these
};

// Requests one after the other: rows [row_begin[b], row_begin[b + 1]) are b's next tokens, at the positions
// up to kv_len[b] - 1. A decode has one row, a chunk of a prompt several.
struct Batch {
  std::span<const int32_t> tokens;     // [rows]
  std::span<const int32_t> row_begin;  // [requests + 1], from 0
  std::span<const int32_t> kv_len;     // [requests], positions in the cache with this step's
  PageTable pages;
  std::span<const Samples> samples{};  // [requests]; empty: each samples one token greedily
  bool all_logits = false;             // are computed of every row, not only of each request's last

  size_t requests() const { return kv_len.size(); }
  // Of the launch at most: as many as any request samples.
  uint32_t steps() const {
    uint32_t max = 1;
    for (const Samples& of : samples) max = std::max(max, of.limit);
    return max;
  }
  Samples samples_of(size_t request) const { return samples.empty() ? Samples{} : samples[request]; }
};

// What the requests of a launch have sampled, the last of it fed by nobody yet. One that is used again and
// again allocates nothing anew.
struct StepResult {
  std::vector<uint32_t> begin;       // [requests + 1]: request b's are ids[begin[b]] to ids[begin[b + 1] - 1]
  std::vector<int32_t> ids;          // in the order in which they were sampled
  std::vector<MkLogprobs> logprobs;  // of each id, as far as its request asks; empty where none does
  uint32_t steps = 0;                // that the launch has run

  std::span<const int32_t> of(size_t request) const {
    return std::span(ids).subspan(begin[request], begin[request + 1] - begin[request]);
  }
};

}  // namespace mkrt
