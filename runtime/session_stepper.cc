#include "runtime/session_stepper.h"

#include <algorithm>

namespace mkrt {

Status SessionStepper::step(const Batch& batch, std::span<int32_t> next, std::span<float> logits) {
  const uint64_t vocab = limits().vocab;
  rows_.resize(logits.empty() ? 0 : batch.tokens.size() * vocab);
  if (Status status = session_->step(batch, next, logits.empty() ? nullptr : rows_.data()); !status.ok())
    return status;
  for (size_t b = 0; b < batch.kv_len.size() && !logits.empty(); ++b) {
    const auto last = static_cast<size_t>(batch.row_begin[b + 1] - 1);
    std::ranges::copy(std::span(rows_).subspan(last * vocab, vocab), logits.subspan(b * vocab).begin());
  }
  return {};
}

}  // namespace mkrt
