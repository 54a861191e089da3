#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "runtime/c_api/c_abi.h"

using mkrt::failed, mkrt::guarded, mkrt::missing, mkrt::Status;

namespace {

static_assert(sizeof(mkrt_sampling) == sizeof(mkrt::MkSampling));
static_assert(offsetof(mkrt_sampling, position) == offsetof(mkrt::MkSampling, position));
static_assert(sizeof(mkrt_bias) == sizeof(mkrt::MkBias));
static_assert(offsetof(mkrt_bias, after) == offsetof(mkrt::MkBias, after));
static_assert(sizeof(mkrt_logprobs) == sizeof(mkrt::MkLogprobs));
static_assert(offsetof(mkrt_logprobs, top_id) == offsetof(mkrt::MkLogprobs, top_id));

bool lacks_room(const mkrt_samples& samples) {
  return (samples.limit > 0 && missing(samples.ids, "ids")) ||
         (samples.stops > 0 && missing(samples.stop_ids, "stop_ids")) ||
         (samples.bias_count > 0 && missing(samples.biases, "biases")) ||
         (samples.limit > 0 && samples.sampling.logprobs > 0 && missing(samples.logprobs, "logprobs"));
}

mkrt::Samples samples_of(const mkrt::Session& session, const mkrt_samples& samples) {
  mkrt::Samples out;
  out.sampling = std::bit_cast<mkrt::MkSampling>(samples.sampling);
  out.limit = samples.limit;
  out.stop_ids = {samples.stop_ids, samples.stops};
  const size_t words = (session.limits().vocab + size_t{31}) / 32;
  if (samples.seen) out.seen = {samples.seen, words};
  if (samples.allowed) out.allowed = {samples.allowed, words};
  out.biases = {reinterpret_cast<const mkrt::MkBias*>(samples.biases), samples.bias_count};
  return out;
}

// Copies one request's samples of a step to the caller.
Status give(const mkrt::StepResult& result, uint32_t b, mkrt_samples& to) {
  const std::span<const int32_t> ids = result.of(b);
  if (ids.size() > to.limit)
    return mkrt::Error{fmt::format("mkrt: error: request {} has sampled {} tokens, there is room for {}", b,
                                   ids.size(), to.limit)};
  std::copy(ids.begin(), ids.end(), to.ids);
  to.count = static_cast<uint32_t>(ids.size());
  if (to.sampling.logprobs > 0 && to.count > 0 && !result.logprobs.empty())  // as when the step was begun
    std::memcpy(to.logprobs, &result.logprobs[result.begin[b]], to.count * sizeof(mkrt_logprobs));
  return {};
}

// Copies the samples of all requests. `next` gets the last token of each request, or -1 for none. `next` and
// `samples` may be NULL.
int give_all(const mkrt::StepResult& result, int32_t* next, mkrt_samples* samples) {
  const auto requests = static_cast<uint32_t>(result.begin.size() - 1);
  for (uint32_t b = 0; b < requests; ++b) {
    if (next) next[b] = result.of(b).empty() ? -1 : result.of(b).back();
    if (samples && (lacks_room(samples[b]) || failed(give(result, b, samples[b])) != 0)) return 1;
  }
  return 0;
}

bool lacks_lists(const mkrt_batch& batch) {
  return missing(batch.tokens, "tokens") || missing(batch.row_begin, "row_begin") ||
         missing(batch.kv_len, "kv_len") || missing(batch.page_begin, "page_begin") ||
         missing(batch.page_index, "page_index");
}

// Converts a batch and its samples to the session's form, valid until the next call. NULL samples mean one
// greedy token each. Returns false, and keeps the error, if an argument is missing.
bool take(mkrt_session* session, const mkrt_batch* batch, const mkrt_samples* samples, mkrt::Batch& out) {
  if (missing(session) || missing(batch, "batch") || lacks_lists(*batch)) return false;
  const size_t requests = batch->requests, max = session->session.limits().max_requests;
  if (requests > max) {
    mkrt::last_error = fmt::format("step: error: found {} requests, expected 1 to {}", requests, max);
    return false;
  }
  session->samples.clear();
  for (size_t b = 0; b < requests && samples; ++b) {
    if (lacks_room(samples[b])) return false;
    session->samples.push_back(samples_of(session->session, samples[b]));
  }
  const auto count = [&](const int32_t* begin) { return static_cast<size_t>(std::max(0, begin[requests])); };
  out = {{batch->tokens, count(batch->row_begin)},
         {batch->row_begin, requests + 1},
         {batch->kv_len, requests},
         {{batch->page_begin, requests + 1}, {batch->page_index, count(batch->page_begin)}},
         session->samples};
  return true;
}

int step_batch(mkrt_session* session, const mkrt_batch* batch, mkrt_samples* samples, float* logits,
               int32_t* next) {
  mkrt::Batch step;
  if (!take(session, batch, samples, step) ||
      failed(session->session.step(step, session->result, logits)) != 0)
    return 1;
  return give_all(session->result, next, samples);
}

// Passes a batch to a function that does not wait for its result.
int pass(mkrt_session* session, const mkrt_batch* batch, const mkrt_samples* samples,
         Status (mkrt::Session::*to)(const mkrt::Batch&)) {
  return guarded(
      [&] {
        mkrt::Batch step;
        return take(session, batch, samples, step) ? failed((session->session.*to)(step)) : 1;
      },
      1);
}

}  // namespace

int mkrt_step(mkrt_session* session, const int32_t* tokens, uint32_t count, float* logits, int32_t* next) {
  return guarded(
      [&] {
        if (missing(session) || missing(tokens, "tokens")) return 1;
        const mkrt::Result<int32_t> chosen = session->session.step({tokens, count}, logits);
        if (!chosen.ok()) {
          mkrt::last_error = chosen.error().message;
          return 1;
        }
        if (next) *next = chosen.value();
        return 0;
      },
      1);
}

int mkrt_step_batch(mkrt_session* session, const mkrt_batch* batch, float* logits, int32_t* next) {
  return guarded(
      [&] { return missing(next, "next") ? 1 : step_batch(session, batch, nullptr, logits, next); }, 1);
}

mkrt_sampling mkrt_greedy(void) {
  return std::bit_cast<mkrt_sampling>(mkrt::MkSampling{});
}

int mkrt_sample(mkrt_session* session, const int32_t* tokens, uint32_t count, mkrt_samples* samples) {
  return guarded(
      [&] {
        if (missing(session) || missing(tokens, "tokens") || missing(samples, "samples") ||
            lacks_room(*samples))
          return 1;
        const mkrt::Samples wanted = samples_of(session->session, *samples);
        if (failed(session->session.step({tokens, count}, wanted, session->result)) != 0) return 1;
        return failed(give(session->result, 0, *samples));
      },
      1);
}

int mkrt_sample_batch(mkrt_session* session, const mkrt_batch* batch, mkrt_samples* samples) {
  return guarded(
      [&] { return missing(samples, "samples") ? 1 : step_batch(session, batch, samples, nullptr, nullptr); },
      1);
}

int mkrt_read_tensor(const mkrt_session* session, const char* name, void* to, size_t bytes) {
  return guarded(
      [&] {
        if (missing(session) || missing(name, "name") || missing(to, "to")) return 1;
        return failed(session->session.read_tensor(name, {static_cast<std::byte*>(to), bytes}));
      },
      1);
}

const char* mkrt_trace(mkrt_session* session) {
  return guarded(
      [&]() -> const char* {
        if (missing(session)) return nullptr;
        const mkrt::Result<mkrt::Trace> trace = session->session.read_trace();
        if (!trace.ok()) return fail<const char>(trace.error());
        session->trace = mkrt::to_json(trace.value());
        return session->trace.c_str();
      },
      nullptr);
}

int mkrt_begin_step(mkrt_session* session, const mkrt_batch* batch, const mkrt_samples* samples) {
  return pass(session, batch, samples, &mkrt::Session::begin_step);
}

int mkrt_end_step(mkrt_session* session, int32_t* next, mkrt_samples* samples) {
  return guarded(
      [&] {
        if (missing(session) || failed(session->session.end_step(session->result)) != 0) return 1;
        return give_all(session->result, next, samples);
      },
      1);
}

int mkrt_capture_step(mkrt_session* session, const mkrt_samples* max) {
  return guarded(
      [&] {
        if (missing(session) || (max && lacks_room(*max))) return 1;
        return failed(
            session->session.capture_step(max ? samples_of(session->session, *max) : mkrt::Samples{}));
      },
      1);
}

int mkrt_fill_step(mkrt_session* session, const mkrt_batch* batch, const mkrt_samples* samples) {
  return pass(session, batch, samples, &mkrt::Session::fill_step);
}

uint64_t mkrt_logits(const mkrt_session* session) {
  return missing(session) ? 0 : session->session.logits_address();
}

int mkrt_set_stream(mkrt_session* session, void* stream) {
  if (missing(session)) return 1;
  return failed(session->session.set_stream(reinterpret_cast<uint64_t>(stream)));
}

int mkrt_set_timeout(mkrt_session* session, uint32_t milliseconds) {
  if (missing(session)) return 1;
  session->session.set_timeout(uint64_t{milliseconds} * 1'000'000);
  return 0;
}
