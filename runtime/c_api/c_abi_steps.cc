#include <algorithm>
#include <cstddef>

#include "runtime/c_api/c_abi.h"
#include "runtime/c_api/sampling.h"
#include "runtime/c_api/versions.h"

using mkrt::Claim, mkrt::element, mkrt::fail, mkrt::guarded, mkrt::has_engine, mkrt::keep, mkrt::missing,
    mkrt::Status;

namespace {

static_assert(sizeof(mkrt_bias) == sizeof(mkrt::MkBias));
static_assert(offsetof(mkrt_bias, after) == offsetof(mkrt::MkBias, after));

bool lacks_room(const mkrt_samples& samples, const mkrt::MkSampling& sampling) {
  const bool logprobs = samples.limit > 0 && sampling.logprobs > 0;
  return (samples.limit > 0 && missing(samples.ids, "ids")) ||
         (samples.stop_count > 0 && missing(samples.stop_ids, "stop_ids")) ||
         (samples.bias_count > 0 && missing(samples.biases, "biases")) ||
         (logprobs &&
          (missing(samples.logprobs, "logprobs") ||
           mkrt::unknown_size<mkrt_logprobs>(samples.logprobs_size, "mkrt_samples.logprobs_size")));
}

// Converts what a request samples. Returns false, and keeps the error, if an argument is missing or a size is
// none of a version.
bool take_samples(const mkrt::Session& session, const mkrt_samples* from, mkrt::Samples& out) {
  mkrt_samples samples;
  if (!mkrt::take(from, samples) || !mkrt::take_sampling(samples.sampling, out.sampling) ||
      lacks_room(samples, out.sampling))
    return false;
  if (samples.reserved != 0) {
    mkrt::refuse("reserved: found {}, expected 0", samples.reserved);
    return false;
  }
  out.limit = samples.limit;
  out.stop_ids = {samples.stop_ids, samples.stop_count};
  const size_t words = (session.limits().vocab + size_t{31}) / 32;
  if (samples.seen) out.seen = {samples.seen, words};
  if (samples.allowed) out.allowed = {samples.allowed, words};
  out.biases = {reinterpret_cast<const mkrt::MkBias*>(samples.biases), samples.bias_count};
  return true;
}

// Copies one request's samples of a step to the caller.
mkrt_status give(const mkrt::Session& session, const mkrt::StepResult& result, uint32_t b, mkrt_samples* to) {
  mkrt::Samples wanted;
  if (!take_samples(session, to, wanted)) return mkrt::last_status();
  const std::span<const int32_t> ids = result.of(b);
  if (ids.size() > to->limit)
    return mkrt::refuse("request {} has sampled {} tokens, there is room for {}", b, ids.size(), to->limit);
  std::copy(ids.begin(), ids.end(), to->ids);
  to->count = static_cast<uint32_t>(ids.size());
  if (mkrt::has_field(to->size, offsetof(mkrt_samples, finite))) to->finite = result.finite[b];
  if (wanted.sampling.logprobs == 0 || result.logprobs.empty()) return MKRT_OK;  // as when the step was begun
  for (uint32_t i = 0; i < to->count; ++i)
    mkrt::give_logprobs(result.logprobs[result.begin[b] + i], to->logprobs, to->logprobs_size, i);
  return MKRT_OK;
}

// Copies the samples of all requests. `next` gets the last token of each request, or -1 for none. `next` and
// `samples` may be NULL.
mkrt_status give_all(const mkrt_session& session, int32_t* next, mkrt_samples* samples) {
  const mkrt::StepResult& result = session.result;
  const auto requests = static_cast<uint32_t>(result.begin.size() - 1);
  for (uint32_t b = 0; b < requests; ++b) {
    if (next) next[b] = result.of(b).empty() ? -1 : result.of(b).back();
    if (!samples) continue;
    if (const mkrt_status s = give(session.session, result, b, element(samples, b)); s != MKRT_OK) return s;
  }
  return MKRT_OK;
}

bool lacks_lists(const mkrt_batch& batch) {
  return missing(batch.tokens, "tokens") || missing(batch.row_begin, "row_begin") ||
         missing(batch.kv_len, "kv_len") || missing(batch.page_begin, "page_begin") ||
         missing(batch.page_index, "page_index");
}

// Converts the samples of all requests to session.samples. Returns false, and keeps the error.
bool take_all(mkrt_session& session, const mkrt_samples* samples, size_t requests) {
  session.samples.clear();
  for (size_t b = 0; b < requests && samples; ++b) {
    const mkrt_samples* at = element(samples, b);
    if (at->size != samples->size) {
      mkrt::refuse("mkrt_samples.size: found {} at request {}, expected {}, the size at request 0", at->size,
                   b, samples->size);
      return false;
    }
    if (!take_samples(session.session, at, session.samples.emplace_back())) return false;
  }
  return true;
}

// Converts a batch and its samples to the session's form, valid until the next call. NULL samples mean one
// greedy token each. Returns false, and keeps the error, if an argument is missing.
bool take_batch(mkrt_session& session, const mkrt_batch* from, const mkrt_samples* samples,
                mkrt::Batch& out) {
  mkrt_batch batch;
  if (missing(from, "batch") || !mkrt::take(from, batch) || lacks_lists(batch)) return false;
  const size_t requests = batch.requests, max = session.session.limits().max_requests;
  if (requests > max) {
    keep(MKRT_BAD_ARGUMENT, fmt::format("step: error: found {} requests, expected 1 to {}", requests, max));
    return false;
  }
  if (!take_all(session, samples, requests)) return false;
  const auto count = [&](const int32_t* begin) { return static_cast<size_t>(std::max(0, begin[requests])); };
  out = {{batch.tokens, count(batch.row_begin)},
         {batch.row_begin, requests + 1},
         {batch.kv_len, requests},
         {{batch.page_begin, requests + 1}, {batch.page_index, count(batch.page_begin)}},
         session.samples};
  return true;
}

mkrt_status step_batch(const Claim<mkrt_session>& claim, const mkrt_batch* batch, mkrt_samples* samples,
                       float* logits, int32_t* next) {
  mkrt::Batch step;
  if (!take_batch(*claim.shared(), batch, samples, step)) return mkrt::last_status();
  const mkrt_status status = keep(claim->session.step(step, claim->result, logits));
  return status == MKRT_OK ? give_all(*claim.shared(), next, samples) : status;
}

// Passes a batch to a function that does not wait for its result.
mkrt_status pass(mkrt_session* session, const mkrt_batch* batch, const mkrt_samples* samples,
                 Status (mkrt::Session::*to)(const mkrt::Batch&)) {
  return guarded([&] {
    const Claim claim(session);
    mkrt::Batch step;
    if (!claim || has_engine(claim) || !take_batch(*claim.shared(), batch, samples, step))
      return mkrt::last_status();
    return keep((claim->session.*to)(step));
  });
}

}  // namespace

mkrt_status mkrt_step(mkrt_session* session, const int32_t* tokens, uint32_t count, float* logits,
                      int32_t* next) {
  return guarded([&] {
    const Claim claim(session);
    if (!claim || has_engine(claim) || missing(tokens, "tokens")) return mkrt::last_status();
    const mkrt_status status = keep(claim->session.step({tokens, count}, {}, claim->result, logits));
    if (status == MKRT_OK && claim->result.ids.empty())
      return keep(mkrt::Error{"step: error: the kernel has sampled nothing"});
    return status == MKRT_OK ? give_all(*claim.shared(), next, nullptr) : status;
  });
}

mkrt_status mkrt_step_batch(mkrt_session* session, const mkrt_batch* batch, float* logits, int32_t* next) {
  return guarded([&] {
    const Claim claim(session);
    if (!claim || has_engine(claim) || missing(next, "next")) return mkrt::last_status();
    return step_batch(claim, batch, nullptr, logits, next);
  });
}

mkrt_status mkrt_sample(mkrt_session* session, const int32_t* tokens, uint32_t count, mkrt_samples* samples) {
  return guarded([&] {
    const Claim claim(session);
    mkrt::Samples wanted;
    if (!claim || has_engine(claim) || missing(tokens, "tokens") || missing(samples, "samples") ||
        !take_samples(claim->session, samples, wanted))
      return mkrt::last_status();
    const mkrt_status status = keep(claim->session.step({tokens, count}, wanted, claim->result));
    return status == MKRT_OK ? give(claim->session, claim->result, 0, samples) : status;
  });
}

mkrt_status mkrt_sample_batch(mkrt_session* session, const mkrt_batch* batch, mkrt_samples* samples) {
  return guarded([&] {
    const Claim claim(session);
    if (!claim || has_engine(claim) || missing(samples, "samples")) return mkrt::last_status();
    return step_batch(claim, batch, samples, nullptr, nullptr);
  });
}

mkrt_status mkrt_finite(const mkrt_session* session, uint32_t* finite, uint32_t requests) {
  return guarded([&] {
    const Claim claim(session);
    if (!claim || has_engine(claim) || missing(finite, "finite")) return mkrt::last_status();
    const std::vector<uint32_t>& of = claim->result.finite;
    if (of.empty()) return keep(MKRT_OUT_OF_ORDER, "mkrt: error: finite: found no step, expected one before");
    if (of.size() != requests)
      return mkrt::refuse("finite: found room for {} requests, expected {}, those of the last step", requests,
                          of.size());
    std::copy(of.begin(), of.end(), finite);
    return MKRT_OK;
  });
}

mkrt_status mkrt_read_tensor(const mkrt_session* session, const char* name, void* to, size_t bytes) {
  return guarded([&] {
    const Claim claim(session);
    if (!claim || missing(name, "name") || missing(to, "to")) return mkrt::last_status();
    return keep(claim->session.read_tensor(name, {static_cast<std::byte*>(to), bytes}));
  });
}

const char* mkrt_trace(mkrt_session* session) {
  return guarded(
      [&]() -> const char* {
        const Claim claim(session);
        if (!claim) return nullptr;
        const mkrt::Result<mkrt::Trace> trace = claim->session.read_trace();
        if (!trace.ok()) return fail<const char>(trace.error(), MKRT_BAD_ARGUMENT);
        claim->trace = mkrt::to_json(trace.value());
        return claim->trace.c_str();
      },
      nullptr);
}

mkrt_status mkrt_begin_step(mkrt_session* session, const mkrt_batch* batch, const mkrt_samples* samples) {
  return pass(session, batch, samples, &mkrt::Session::begin_step);
}

mkrt_status mkrt_end_step(mkrt_session* session, int32_t* next, mkrt_samples* samples) {
  return guarded([&] {
    const Claim claim(session);
    if (!claim || has_engine(claim)) return mkrt::last_status();
    const mkrt_status status = keep(claim->session.end_step(claim->result));
    return status == MKRT_OK ? give_all(*claim.shared(), next, samples) : status;
  });
}

mkrt_status mkrt_capture_step(mkrt_session* session, const mkrt_samples* max) {
  return guarded([&] {
    const Claim claim(session);
    mkrt::Samples samples;
    if (!claim || has_engine(claim) || (max && !take_samples(claim->session, max, samples)))
      return mkrt::last_status();
    return keep(claim->session.capture_step(samples));
  });
}

mkrt_status mkrt_fill_step(mkrt_session* session, const mkrt_batch* batch, const mkrt_samples* samples) {
  return pass(session, batch, samples, &mkrt::Session::fill_step);
}

uint64_t mkrt_logits(const mkrt_session* session) {
  return mkrt::present(session, [](const mkrt::Session& s) { return s.logits_address(); });
}

mkrt_status mkrt_set_stream(mkrt_session* session, void* stream) {
  return guarded([&] {
    const Claim claim(session);
    if (!claim) return mkrt::last_status();
    return keep(claim->session.set_stream(reinterpret_cast<uint64_t>(stream)));
  });
}

mkrt_status mkrt_set_timeout(mkrt_session* session, uint32_t milliseconds) {
  return guarded([&] {
    const Claim claim(session);
    if (!claim) return mkrt::last_status();
    claim->session.set_timeout(uint64_t{milliseconds} * 1'000'000);
    return MKRT_OK;
  });
}
