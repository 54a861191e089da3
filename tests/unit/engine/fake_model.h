// FakeModel is a model without weights. The next token is a hash of all tokens so far, read back through the
// page table.
#pragma once

#include <vector>

#include "runtime/engine/engine.h"

namespace mkrt {

// Limits of a small model.
constexpr BatchLimits kFakeLimits = {
    .max_tokens = 8, .max_requests = 4, .context = 64, .vocab = 1000, .page_size = 16, .pages = 8};

// Returns a request for new tokens after a prompt that counts up from `first`.
Request counting_request(size_t prompt, uint32_t max_new_tokens, int32_t first = 0);

// Returns the token that follows a history.
int32_t fake_next(std::span<const int32_t> history, uint32_t vocab);

// Returns the logits after a history. The following token has the greatest logit.
std::vector<float> fake_logits(std::span<const int32_t> history, uint32_t vocab);

// Returns the tokens that a request gets alone, without an engine.
std::vector<int32_t> fake_generate(std::vector<int32_t> history, uint32_t max_new_tokens,
                                   const std::vector<int32_t>& stop_ids, uint32_t vocab,
                                   const MkSampling& sampling = {});

// The cache of a FakeModel holds the tokens themselves. A row that is missing, at a wrong position or in a
// wrong page changes the next token. A page that is written while another request has it is an error.
class FakeModel final : public Stepper {
 public:
  explicit FakeModel(const BatchLimits& limits);
  BatchLimits limits() const override { return limits_; }
  Status step(const Batch& batch, StepResult& result) override;
  Status recover() override;

  struct Step {
    std::vector<int32_t> tokens, row_begin, kv_len, pages;
    std::vector<uint32_t> limits;  // each request's sample limit
    bool operator==(const Step&) const = default;
  };
  std::vector<Step> steps;   // the first step of every launch
  uint64_t fail_at = ~0ull;  // index of the launch that fails
  uint32_t failures = 0;     // launches that fail there; the model recovers of each; 0: one, for good
  uint64_t lost_at = ~0ull;  // index of the launch in which the first request loses its finite logits
  uint32_t lost_after = 0;   // tokens of that launch before this
  int32_t nan_behind = -1;   // the token behind which scored rows have logits that are no numbers
  uint32_t vain = 0;         // calls of recover() that fail before one succeeds

 private:
  Status check_written(const Batch& batch) const;
  int32_t& slot(std::span<const int32_t> pages, size_t position);

  BatchLimits limits_;
  PagesSeen seen_;
  std::vector<int32_t> cache_;  // tokens [pages, page_size]
};

}  // namespace mkrt
