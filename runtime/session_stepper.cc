#include "runtime/session_stepper.h"

#include <algorithm>

namespace mkrt {

BatchLimits SessionStepper::limits() const {
  constexpr uint32_t kPageSize = 64;
  return {.max_tokens = session_->max_tokens(),
          .max_requests = 1,
          .context = session_->context(),
          .vocab = static_cast<uint32_t>(session_->manifest().vocab),
          .page_size = kPageSize,
          .pages = static_cast<uint32_t>(pages_for(session_->context(), kPageSize))};
}

Status SessionStepper::step(const Batch& batch, std::span<int32_t> next, std::span<float> logits) {
  if (Status status = check_batch(batch, limits(), seen_); !status.ok()) return status;
  session_->set_position(static_cast<uint32_t>(batch.kv_len[0]) - static_cast<uint32_t>(batch.tokens.size()));
  rows_.resize(batch.tokens.size() * logits.size());
  const Result<int32_t> token = session_->step(batch.tokens, rows_.empty() ? nullptr : rows_.data());
  if (!token.ok()) return token.error();
  if (!rows_.empty()) std::ranges::copy(std::span(rows_).last(logits.size()), logits.begin());
  next[0] = token.value();
  return {};
}

}  // namespace mkrt
