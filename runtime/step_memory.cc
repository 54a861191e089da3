#include "runtime/step_memory.h"

#include <algorithm>
#include <cstring>

#include "runtime/pages.h"

namespace mkrt {
namespace {

constexpr uint64_t kAlignment = 256;

// What the draws of a request, or of all, take: words of stop ids, seen ids and tokens, entries of
// log-probabilities.
struct DrawSizes {
  uint64_t stop_ids = 0, seen = 0, drawn = 0, logprobs = 0;
};

DrawSizes sizes_of(const Draws& draws) {
  return {draws.limit > 1 ? draws.stop_ids.size() : 0, draws.seen.size(),
          draws.limit > 0 ? 1 + uint64_t{draws.limit} : 0, draws.sampling.logprobs > 0 ? draws.limit : 0};
}

DrawSizes sizes_of(const Batch& batch) {
  DrawSizes all;
  for (size_t b = 0; b < batch.requests(); ++b) {
    const DrawSizes sizes = sizes_of(batch.draws_of(b));
    all.stop_ids += sizes.stop_ids;
    all.seen += sizes.seen;
    all.drawn += sizes.drawn;
    all.logprobs += sizes.logprobs;
  }
  return all;
}

}  // namespace

StepMemory::~StepMemory() {
  if (memory_ != 0) device_->release(memory_);
}

Status StepMemory::grow(uint64_t bytes) {
  if (bytes <= bytes_) return {};
  const Result<uint64_t> got = device_->allocate(bytes);
  if (!got.ok()) return got.error();
  if (memory_ != 0) device_->release(memory_);
  memory_ = got.value();
  bytes_ = bytes;
  return {};
}

Status StepMemory::reserve(Device& device, const BatchLimits& limits) {
  device_ = &device;
  limits_ = limits;
  const uint64_t words = uint64_t{2} * limits.max_tokens + kStepLists * kMaxRequests +
                         uint64_t{4} * limits.max_requests + limits.pages;
  const uint64_t bytes = sizeof(MkStep) + limits.max_requests * sizeof(MkDraw) + words * sizeof(int32_t);
  constexpr uint64_t pieces = sizeof(Layout) / sizeof(uint64_t);
  host_.reserve(bytes + pieces * kAlignment);
  return grow(bytes + pieces * kAlignment);
}

StepMemory::Layout StepMemory::lay_out(const Batch& batch) const {
  uint64_t end = sizeof(MkStep);
  const auto take = [&](uint64_t count, uint64_t bytes = sizeof(int32_t)) {
    const uint64_t at = (end + kAlignment - 1) / kAlignment * kAlignment;
    end = at + count * bytes;
    return at;
  };
  uint64_t pages = 0;
  for (size_t b = 0; b < batch.requests(); ++b) pages += pages_used(batch, limits_, b);
  const DrawSizes all = sizes_of(batch);
  Layout at;
  at.tokens = take(batch.tokens.size());
  at.positions = take(batch.tokens.size());
  at.lists = take(kStepLists * kMaxRequests);
  at.page_begin = take(batch.requests());
  at.page_index = take(pages);
  at.slot = take(batch.requests());
  at.draws = take(batch.requests(), sizeof(MkDraw));
  at.stop_ids = take(all.stop_ids);
  at.seen = take(all.seen);
  at.drawn = take(all.drawn);
  at.logprobs = take(all.logprobs, sizeof(MkLogprobs));
  at.end = end;
  return at;
}

void StepMemory::fill_rows(const Batch& batch) {
  std::copy(batch.tokens.begin(), batch.tokens.end(), host<int32_t>(at_.tokens));
  auto *positions = host<int32_t>(at_.positions), *lists = host<int32_t>(at_.lists),
       *page_begin = host<int32_t>(at_.page_begin), *page_index = host<int32_t>(at_.page_index),
       *slot = host<int32_t>(at_.slot);
  int32_t pages = 0;
  for (size_t b = 0; b < batch.requests(); ++b) {
    const int32_t first = batch.row_begin[b], rows = batch.row_begin[b + 1] - first, length = batch.kv_len[b];
    lists[kRowsList * kMaxRequests + b] = rows;
    lists[kLengthsList * kMaxRequests + b] = length;
    lists[kFirstRowsList * kMaxRequests + b] = first;
    for (int32_t i = 0; i < rows; ++i) positions[first + i] = length - rows + i;
    page_begin[b] = pages;
    const auto used = static_cast<int32_t>(pages_used(batch, limits_, b));
    std::copy_n(batch.pages.index.begin() + batch.pages.begin[b], used, page_index + pages);
    pages += used;
    slot[b] = static_cast<int32_t>(b);
  }
}

void StepMemory::fill_draws(const Batch& batch) {
  uint64_t stop_ids = at_.stop_ids, seen = at_.seen, drawn = at_.drawn, logprobs = at_.logprobs;
  for (size_t b = 0; b < batch.requests(); ++b) {
    const Draws draws = batch.draws_of(b);
    const DrawSizes sizes = sizes_of(draws);
    MkDraw& out = host<MkDraw>(at_.draws)[b];
    out = {};
    out.sampling = draws.sampling;
    out.limit = draws.limit;
    out.positions = static_cast<uint32_t>(
        std::min<uint64_t>(limits_.context, pages_used(batch, limits_, b) * limits_.page_size));
    out.stops = static_cast<uint32_t>(sizes.stop_ids);
    out.stop_ids = memory_ + stop_ids;
    out.drawn = memory_ + drawn;
    if (sizes.seen > 0) out.seen = memory_ + seen;
    if (sizes.logprobs > 0) out.logprobs = memory_ + logprobs;
    std::copy_n(draws.stop_ids.begin(), sizes.stop_ids, host<int32_t>(stop_ids));
    std::copy(draws.seen.begin(), draws.seen.end(), host<uint32_t>(seen));
    stop_ids += sizes.stop_ids * sizeof(int32_t);
    seen += sizes.seen * sizeof(uint32_t);
    drawn += sizes.drawn * sizeof(uint32_t);
    logprobs += sizes.logprobs * sizeof(MkLogprobs);
  }
}

Result<uint64_t> StepMemory::write(const Batch& batch, MkStep step) {
  at_ = lay_out(batch);
  if (Status status = grow(at_.end); !status.ok()) return status.error();
  host_.resize(at_.drawn);
  fill_rows(batch);
  fill_draws(batch);
  step.input[0] = memory_ + at_.tokens;
  step.input[1] = memory_ + at_.positions;
  step.lists = memory_ + at_.lists;
  step.page_begin = memory_ + at_.page_begin;
  step.page_index = memory_ + at_.page_index;
  step.slot = memory_ + at_.slot;
  step.draws = memory_ + at_.draws;
  step.steps = batch.steps();
  std::memcpy(host_.data(), &step, sizeof(step));
  if (Status status = device_->write(memory_, host_); !status.ok()) return status.error();
  return memory_;
}

Status StepMemory::read(const Batch& batch, StepResult& result) {
  const DrawSizes all = sizes_of(batch);
  drawn_.resize(all.drawn);
  logprobs_.resize(all.logprobs);
  for (const auto& [to, from] : {std::pair{std::as_writable_bytes(std::span(drawn_)), at_.drawn},
                                 {std::as_writable_bytes(std::span(logprobs_)), at_.logprobs}})
    if (!to.empty())
      if (Status status = device_->read(to, memory_ + from); !status.ok()) return status;
  result.begin.assign(1, 0);
  result.ids.clear();
  result.logprobs.clear();
  result.steps = 1;
  const uint32_t* drawn = drawn_.data();
  const MkLogprobs* logprobs = logprobs_.data();
  for (size_t b = 0; b < batch.requests(); ++b) {
    const DrawSizes sizes = sizes_of(batch.draws_of(b));
    const uint32_t count = sizes.drawn > 0 ? *drawn : 0;
    result.ids.insert(result.ids.end(), drawn + 1, drawn + 1 + count);
    if (sizes.logprobs > 0) result.logprobs.insert(result.logprobs.end(), logprobs, logprobs + count);
    if (all.logprobs > 0) result.logprobs.resize(result.ids.size());
    result.begin.push_back(static_cast<uint32_t>(result.ids.size()));
    result.steps = std::max(result.steps, count);
    drawn += sizes.drawn;
    logprobs += sizes.logprobs;
  }
  return {};
}

}  // namespace mkrt
