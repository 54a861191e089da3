// A batch is checked before any part of its launch runs.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/session/batch.h"

namespace mkrt {

constexpr uint32_t kMaxSteps = 4096;  // most steps of a launch

// BatchLimits says which batches a kernel and its cache can take.
struct BatchLimits {
  uint32_t max_tokens = 0;    // rows of a step
  uint32_t max_requests = 0;  // of a step
  uint32_t context = 0;       // positions of a request
  uint32_t vocab = 0;
  uint32_t page_size = 0;  // positions of a page
  uint32_t pages = 0;      // of the cache

  bool operator==(const BatchLimits&) const = default;
};

// Returns the most entries of the page table that a batch can use. A page counts for every request that reads
// it.
uint64_t page_entries(const BatchLimits& limits);

// PagesSeen is memory that check_batch keeps between steps, for one cache. `step` has a mark for each page:
// `now` if the step reads it, now + 1 if the step writes it. Each step takes two further marks from 1 to 254,
// and then they start again. One byte per page keeps the memory of a check small enough for the processor's
// caches.
struct PagesSeen {
  std::vector<uint8_t> step;
  uint8_t now = 0;
};

// SampledBefore says for each request of the launch before whether its token may be an input of this launch.
// No launch, or one of several steps, has none.
using SampledBefore = std::span<const uint8_t>;

// Returns how many pages of request b a launch may use. The pages hold the request's kv_len positions and the
// tokens that it samples and feeds. The given pages and the context limit the number. Requires a batch that
// has been checked.
uint64_t pages_used(const Batch& batch, const BatchLimits& limits, size_t b);

// Checks every row and the pages that the launch may use; later entries of the page table are not read. The
// time grows with the step's rows and pages. The first call with a `seen` allocates memory, and later calls
// do not.
//
// Errors name the request, the field, the value found and the value expected:
// - no requests, or more than the limit
// - lists whose lengths do not agree
// - rows that do not rise from 0, or exceed the limit
// - kv_len below the request's rows, beyond its pages, or beyond the context
// - ids outside the vocabulary
// - samples of the launch before that `sampled` does not have
// - pages outside the cache
// - pages that the launch writes, and uses elsewhere, too; several requests may read a page
// - samples outside the ranges of MkSampling
// - seen ids that are missing, or that no penalty applies to
// - biases out of order, outside the vocabulary or outside their range
// - biases that forbid every id, or allowed ids of which there are none
// - scored rows outside the batch, with ids outside the vocabulary, or in a launch of several steps
Status check_batch(const Batch& batch, const BatchLimits& limits, PagesSeen& seen,
                   SampledBefore sampled = {});

}  // namespace mkrt
