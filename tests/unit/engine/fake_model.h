// A model without weights: the next token is a hash of all tokens so far, read back through the page table.
#pragma once

#include <vector>

#include "runtime/engine/engine.h"

namespace mkrt {

// The successor of a history.
int32_t fake_next(std::span<const int32_t> history, uint32_t vocab);

// Its logits: the successor has the greatest.
std::vector<float> fake_logits(std::span<const int32_t> history, uint32_t vocab);

// What a request gets alone, without any engine.
std::vector<int32_t> fake_generate(std::vector<int32_t> history, uint32_t max_new_tokens,
                                   const std::vector<int32_t>& stop_ids, uint32_t vocab,
                                   const MkSampling& sampling = {});

// Its cache holds the tokens themselves. A row at a wrong position, in a wrong page or left out changes what
// follows; a page that two requests have is an error.
class FakeModel final : public Stepper {
 public:
  explicit FakeModel(const BatchLimits& limits);
  BatchLimits limits() const override { return limits_; }
  Status step(const Batch& batch, StepResult& result) override;

  struct Step {
    std::vector<int32_t> tokens, row_begin, kv_len, pages;
    std::vector<uint32_t> limits;  // of the draws
    bool operator==(const Step&) const = default;
  };
  std::vector<Step> steps;   // all launches, by their first steps
  uint64_t fail_at = ~0ull;  // the launch that fails

 private:
  int32_t& slot(std::span<const int32_t> pages, size_t position);

  BatchLimits limits_;
  PagesSeen seen_;
  std::vector<int32_t> cache_;  // [pages, page_size]
};

}  // namespace mkrt
