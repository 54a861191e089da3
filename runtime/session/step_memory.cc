#include "runtime/session/step_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/session/pages.h"
#include "runtime/session/sample.h"

namespace mkrt {
namespace {

constexpr uint64_t kListAlignment = 256;

// Returns how many entries of its page table a batch uses.
uint64_t page_entries_of(const Batch& batch, const BatchLimits& limits) {
  uint64_t entries = 0;
  for (size_t b = 0; b < batch.requests(); ++b) entries += pages_used(batch, limits, b);
  return entries;
}

}  // namespace

uint64_t result_bytes(const BatchLimits& limits) {
  constexpr uint64_t words = 2;  // per request: a count and a token
  return kListAlignment + (words * limits.max_requests * sizeof(uint32_t) + kListAlignment - 1) /
                              kListAlignment * kListAlignment;
}

StepMemory::SampleSizes StepMemory::sizes_of(const Samples& samples) const {
  const uint64_t blocks = (limits_.vocab + uint64_t{kBiasBlockIds} - 1) / kBiasBlockIds;
  return {.stop_ids = samples.limit > 1 ? samples.stop_ids.size() : 0,
          .seen = samples.seen.size(),
          .allowed = samples.allowed.size(),
          .biases = samples.biases.size(),
          .bias_begin = samples.biases.empty() ? 0 : blocks + 1,
          .sampled = samples.limit > 0 ? 1 + uint64_t{samples.limit} : 0,
          .logprobs = samples.sampling.logprobs > 0 ? samples.limit : 0};
}

void StepMemory::SampleSizes::add(const SampleSizes& other, uint64_t times) {
  stop_ids += times * other.stop_ids;
  seen += times * other.seen;
  allowed += times * other.allowed;
  biases += times * other.biases;
  bias_begin += times * other.bias_begin;
  sampled += times * other.sampled;
  logprobs += times * other.logprobs;
}

bool StepMemory::SampleSizes::fits(const SampleSizes& room) const {
  return stop_ids <= room.stop_ids && seen <= room.seen && allowed <= room.allowed && biases <= room.biases &&
         bias_begin <= room.bias_begin && sampled <= room.sampled && logprobs <= room.logprobs;
}

void StepMemory::release() {
  if (memory_ != 0) device_->release(memory_);
  if (host_) device_->release_host(host_);
  memory_ = bytes_ = 0;
  host_ = nullptr;
}

StepMemory::~StepMemory() {
  release();
  if (mark_) device_->release_mark(*mark_);
}

Status StepMemory::grow(uint64_t bytes) {
  if (bytes <= bytes_) return {};
  const Result<uint64_t> memory = device_->allocate(bytes);
  if (!memory.ok()) return memory.error();
  const Result<std::byte*> host = device_->allocate_host(bytes);
  if (!host.ok()) {
    device_->release(memory.value());
    return host.error();
  }
  release();
  memory_ = memory.value();
  host_ = host.value();
  bytes_ = bytes;
  return {};
}

Status StepMemory::reserve(Device& device, const BatchLimits& limits, const ResultMemory& results) {
  device_ = &device;
  limits_ = limits;
  results_ = results;
  if (!mark_) {
    const Result<uint64_t> mark = device.make_mark();
    if (!mark.ok()) return mark.error();
    mark_ = mark.value();
  }
  const uint64_t words = uint64_t{2} * limits.max_tokens + kStepLists * kMaxRequests +
                         uint64_t{4} * limits.max_requests + page_entries(limits);
  const uint64_t bytes =
      sizeof(MkStep) + sizeof(MkFault) + limits.max_requests * sizeof(MkSample) + words * sizeof(int32_t);
  constexpr uint64_t pieces = sizeof(Layout) / sizeof(uint64_t);
  sizes_.reserve(limits.max_requests);
  runs_.reserve(limits.max_tokens);
  return grow(bytes + pieces * kListAlignment);
}

StepMemory::Layout StepMemory::lay_out(uint64_t rows, uint64_t requests, uint64_t pages,
                                       const SampleSizes& samples) const {
  uint64_t end = sizeof(MkStep);
  const auto take = [&](uint64_t count, uint64_t bytes = sizeof(int32_t)) {
    const uint64_t begin = (end + kListAlignment - 1) / kListAlignment * kListAlignment;
    end = begin + count * bytes;
    return begin;
  };
  Layout l;
  l.tokens = take(rows);
  l.positions = take(rows);
  l.lists = take(kStepLists * kMaxRequests);
  l.page_begin = take(requests);
  l.launch_request = take(requests);
  l.samples = take(requests, sizeof(MkSample));
  l.stop_ids = take(samples.stop_ids);
  l.seen = take(samples.seen);
  l.allowed = take(samples.allowed);
  l.biases = take(samples.biases, sizeof(MkBias));
  l.bias_begin = take(samples.bias_begin);
  l.page_index = take(pages);  // last, because fewer may be used
  l.fault = take(1, sizeof(MkFault));
  l.sampled = take(samples.sampled);
  l.logprobs = take(samples.logprobs, sizeof(MkLogprobs));
  l.end = end;
  return l;
}

void StepMemory::bring_rows(const Batch& batch) {
  std::copy(batch.tokens.begin(), batch.tokens.end(), at<int32_t>(at_.tokens));
  auto *positions = at<int32_t>(at_.positions), *lists = at<int32_t>(at_.lists),
       *page_begin = at<int32_t>(at_.page_begin), *page_index = at<int32_t>(at_.page_index),
       *launch_request = at<int32_t>(at_.launch_request);
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
    launch_request[b] = static_cast<int32_t>(b);
  }
  if (!settled_) brought_ = at_.page_index + static_cast<uint64_t>(pages) * sizeof(int32_t);
}

void StepMemory::find_last_samples(const Batch& batch) {
  runs_.clear();
  for (uint32_t row = 0; row < batch.tokens.size(); ++row) {
    if (batch.tokens[row] >= 0) continue;
    const uint32_t request = request_of_sample(batch.tokens[row]);
    const bool follows = !runs_.empty() && runs_.back().row + runs_.back().count == row &&
                         runs_.back().request + runs_.back().count == request;
    if (follows)
      ++runs_.back().count;
    else
      runs_.push_back({row, request, 1});
  }
}

void StepMemory::bring_samples(const Batch& batch) {
  Layout next = at_;  // of the next request's lists
  for (size_t b = 0; b < batch.requests(); ++b) {
    const Samples samples = batch.samples_of(b);
    const SampleSizes sizes = sizes_of(samples);
    MkSample& out = at<MkSample>(at_.samples)[b];
    out = {};
    out.sampling = samples.sampling;
    out.limit = samples.limit;
    out.positions = static_cast<uint32_t>(
        std::min<uint64_t>(limits_.context, pages_used(batch, limits_, b) * limits_.page_size));
    out.stops = static_cast<uint32_t>(sizes.stop_ids);
    out.stop_ids = memory_ + next.stop_ids;
    out.sampled = address(next.sampled);
    if (sizes.seen > 0) out.seen = memory_ + next.seen;
    if (sizes.allowed > 0) out.allowed = memory_ + next.allowed;
    if (sizes.biases > 0) out.biases = memory_ + next.biases, out.bias_begin = memory_ + next.bias_begin;
    if (sizes.logprobs > 0) out.logprobs = address(next.logprobs);
    std::copy_n(samples.stop_ids.begin(), sizes.stop_ids, at<int32_t>(next.stop_ids));
    std::copy(samples.seen.begin(), samples.seen.end(), at<uint32_t>(next.seen));
    std::copy(samples.allowed.begin(), samples.allowed.end(), at<uint32_t>(next.allowed));
    std::copy(samples.biases.begin(), samples.biases.end(), at<MkBias>(next.biases));
    index_biases(samples.biases, {at<uint32_t>(next.bias_begin), sizes.bias_begin});
    next.stop_ids += sizes.stop_ids * sizeof(int32_t);
    next.seen += sizes.seen * sizeof(uint32_t);
    next.allowed += sizes.allowed * sizeof(uint32_t);
    next.biases += sizes.biases * sizeof(MkBias);
    next.bias_begin += sizes.bias_begin * sizeof(uint32_t);
    next.sampled += sizes.sampled * sizeof(uint32_t);
    next.logprobs += sizes.logprobs * sizeof(MkLogprobs);
  }
}

Status StepMemory::settle(const Samples& max) {
  SampleSizes room;
  room.add(sizes_of(max), limits_.max_requests);
  const uint32_t steps = std::max(1u, max.limit);
  if (settled_) {
    if (room.fits(*settled_) && steps <= steps_) return {};
    return Error{"step: error: more samples than the first step that was captured has room for"};
  }
  const Layout l = lay_out(limits_.max_tokens, limits_.max_requests, limits_.pages, room);
  if (Status status = grow(l.end); !status.ok()) return status;
  at_ = l;
  settled_ = room;
  steps_ = steps;
  brought_ = at_.fault;
  return {};
}

Status StepMemory::fill(const Batch& batch, MkStep step) {
  SampleSizes all;
  sizes_.clear();
  for (size_t b = 0; b < batch.requests(); ++b) all.add(sizes_.emplace_back(sizes_of(batch.samples_of(b))));
  if (!settled_) {
    const Layout l = lay_out(batch.tokens.size(), batch.requests(), page_entries(limits_), all);
    if (Status status = grow(l.end); !status.ok()) return status;
    at_ = l;
    steps_ = batch.steps();
  } else if (!all.fits(*settled_) || batch.steps() > steps_) {
    return Error{"step: error: more samples than the step that was captured has room for"};
  } else if (const uint64_t entries = page_entries_of(batch, limits_); entries > limits_.pages) {
    return Error{
        fmt::format("step: error: found {} entries of the page table, expected at most {}: the step that "
                    "was captured has room for each page once",
                    entries, limits_.pages)};
  }
  bring_rows(batch);
  find_last_samples(batch);
  bring_samples(batch);
  step.input[0] = memory_ + at_.tokens;
  step.input[1] = memory_ + at_.positions;
  step.lists = memory_ + at_.lists;
  step.page_begin = memory_ + at_.page_begin;
  step.page_index = memory_ + at_.page_index;
  step.launch_request = memory_ + at_.launch_request;
  step.samples = memory_ + at_.samples;
  step.steps = batch.steps();
  std::memcpy(host_, &step, sizeof(step));
  return {};
}

Status StepMemory::enqueue(uint64_t stream, uint64_t session, uint64_t next) {
  constexpr uint64_t kToken = sizeof(int32_t);
  const std::span<std::byte> host(host_, at_.end);
  const std::span<std::byte> sampled = host.subspan(at_.sampled);
  const std::span<std::byte> first =
      together() ? host.subspan(at_.fault) : host.subspan(at_.fault, sizeof(MkFault));
  Status s = device_->enqueue_write(stream, memory_, host.first(brought_));
  for (size_t i = 0; i < runs_.size() && s.ok(); ++i)
    s = device_->enqueue_copy(stream, memory_ + at_.tokens + runs_[i].row * kToken,
                              next + runs_[i].request * kToken, runs_[i].count * kToken);
  if (s.ok()) s = device_->launch(stream, session, memory_, steps_);
  if (s.ok()) s = device_->enqueue_read(stream, first, results_.fault);
  if (s.ok() && !together()) s = device_->enqueue_read(stream, sampled, memory_ + at_.sampled);
  if (s.ok() && !settled_) s = device_->enqueue_mark(stream, *mark_);
  return s;
}

Status StepMemory::wait(uint64_t stream) {
  return settled_ ? device_->wait_for_stream(stream) : device_->wait_for_mark(*mark_);
}

Status StepMemory::read(StepResult& result) const {
  result.begin.assign(1, 0);
  result.ids.clear();
  result.logprobs.clear();
  result.finite.clear();
  result.steps = 1;
  const auto* sampled = at<uint32_t>(at_.sampled);
  const auto* logprobs = at<MkLogprobs>(at_.logprobs);
  const bool asked =
      std::any_of(sizes_.begin(), sizes_.end(), [](const SampleSizes& of) { return of.logprobs > 0; });
  for (const SampleSizes& sizes : sizes_) {
    const uint32_t count = sizes.sampled > 0 ? *sampled : 0;
    if (sizes.sampled > 0 && count >= sizes.sampled)
      return Error{
          fmt::format("step: error: request {}: the kernel says {} tokens were sampled, expected at most {}",
                      result.begin.size() - 1, count, sizes.sampled - 1)};
    const std::span<const uint32_t> words(sampled + 1, count);
    for (const uint32_t word : words) result.ids.push_back(static_cast<int32_t>(word & ~kNotFinite));
    const auto marked = std::ranges::find_if(words, [](uint32_t word) { return (word & kNotFinite) != 0; });
    result.finite.push_back(static_cast<uint32_t>(marked - words.begin()));
    if (sizes.logprobs > 0) result.logprobs.insert(result.logprobs.end(), logprobs, logprobs + count);
    if (asked) result.logprobs.resize(result.ids.size());
    result.begin.push_back(static_cast<uint32_t>(result.ids.size()));
    result.steps = std::max(result.steps, count);
    sampled += sizes.sampled;
    logprobs += sizes.logprobs;
  }
  return {};
}

}  // namespace mkrt
