// Whether a step can run, before anything of it does.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/session/batch.h"

namespace mkrt {

constexpr uint32_t kMaxSteps = 4096;  // of a launch

// What steps a kernel and its cache can take.
struct BatchLimits {
  uint32_t max_tokens = 0;    // rows of a step
  uint32_t max_requests = 0;  // of a step
  uint32_t context = 0;       // positions of a request
  uint32_t vocab = 0;
  uint32_t page_size = 0;  // positions of a page
  uint32_t pages = 0;      // of the cache
};

// Memory that check_batch keeps between steps, for one cache: the step in which each page was last seen.
// Steps count from 1 to 255 and round again: with a byte a page, what a step needs stays near the processor.
struct PagesSeen {
  std::vector<uint8_t> step;
  uint8_t now = 0;
};

// Pages of request b that a launch may use: those of its kv_len positions and of the tokens that it samples
// and feeds, as far as they are given and the context goes. Requires a batch that has been checked.
uint64_t pages_used(const Batch& batch, const BatchLimits& limits, size_t b);

// Looks at every row and at the pages that the launch may use; entries of the table past those are not read.
// Takes time by rows and pages of the step, and memory only in the first call of `seen`. Errors, each with
// the request, the field, what was found and what is expected: no requests, or more than the limit; lists
// whose lengths do not agree; rows that do not rise from 0 or exceed the limit; kv_len less than the
// request's rows, beyond its pages or beyond the context; ids outside the vocabulary; pages outside the
// cache, or used twice in the step; samples outside the ranges of MkSampling; seen ids that are missing, or
// that no penalty applies to.
Status check_batch(const Batch& batch, const BatchLimits& limits, PagesSeen& seen);

}  // namespace mkrt
