#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "runtime/c_abi.h"

using mkrt::failed, mkrt::guarded, mkrt::missing, mkrt::Status;

namespace {

static_assert(sizeof(mkrt_sampling) == sizeof(mkrt::MkSampling));
static_assert(offsetof(mkrt_sampling, position) == offsetof(mkrt::MkSampling, position));
static_assert(sizeof(mkrt_logprobs) == sizeof(mkrt::MkLogprobs));
static_assert(offsetof(mkrt_logprobs, top_id) == offsetof(mkrt::MkLogprobs, top_id));

bool lacks_room(const mkrt_draws& draws) {
  return (draws.limit > 0 && missing(draws.ids, "ids")) ||
         (draws.stops > 0 && missing(draws.stop_ids, "stop_ids")) ||
         (draws.limit > 0 && draws.sampling.logprobs > 0 && missing(draws.logprobs, "logprobs"));
}

mkrt::Draws draws_of(const mkrt::Session& session, const mkrt_draws& draws) {
  mkrt::Draws out;
  out.sampling = std::bit_cast<mkrt::MkSampling>(draws.sampling);
  out.limit = draws.limit;
  out.stop_ids = {draws.stop_ids, draws.stops};
  if (draws.seen) out.seen = {draws.seen, (session.limits().vocab + size_t{31}) / 32};
  return out;
}

// What a step has drawn for one request.
Status give(const mkrt::StepResult& result, uint32_t b, mkrt_draws& to) {
  const std::span<const int32_t> ids = result.of(b);
  if (ids.size() > to.limit)
    return mkrt::Error{fmt::format("mkrt: error: request {} has drawn {} tokens, there is room for {}", b,
                                   ids.size(), to.limit)};
  std::copy(ids.begin(), ids.end(), to.ids);
  to.count = static_cast<uint32_t>(ids.size());
  if (to.sampling.logprobs > 0 && to.count > 0 && !result.logprobs.empty())  // as the step was begun
    std::memcpy(to.logprobs, &result.logprobs[result.begin[b]], to.count * sizeof(mkrt_logprobs));
  return {};
}

// The same for all requests: `next` gets the last token of each, -1 where there is none. Either may be NULL.
int give_all(const mkrt::StepResult& result, int32_t* next, mkrt_draws* draws) {
  const auto requests = static_cast<uint32_t>(result.begin.size() - 1);
  for (uint32_t b = 0; b < requests; ++b) {
    if (next) next[b] = result.of(b).empty() ? -1 : result.of(b).back();
    if (draws && (lacks_room(draws[b]) || failed(give(result, b, draws[b])) != 0)) return 1;
  }
  return 0;
}

bool lacks_lists(const mkrt_batch& batch) {
  return missing(batch.tokens, "tokens") || missing(batch.row_begin, "row_begin") ||
         missing(batch.kv_len, "kv_len") || missing(batch.page_begin, "page_begin") ||
         missing(batch.page_index, "page_index");
}

// The session's form of a batch and its draws (NULL: one token each, greedily); valid until the next one.
// False: something is missing, which is kept as the error.
bool take(mkrt_session* session, const mkrt_batch* batch, const mkrt_draws* draws, mkrt::Batch& out) {
  if (missing(session) || missing(batch, "batch") || lacks_lists(*batch)) return false;
  const size_t requests = batch->requests, max = session->session.limits().max_requests;
  if (requests > max) {
    mkrt::last_error = fmt::format("step: error: found {} requests, expected 1 to {}", requests, max);
    return false;
  }
  session->draws.clear();
  for (size_t b = 0; b < requests && draws; ++b) {
    if (lacks_room(draws[b])) return false;
    session->draws.push_back(draws_of(session->session, draws[b]));
  }
  const auto count = [&](const int32_t* begin) { return static_cast<size_t>(std::max(0, begin[requests])); };
  out = {{batch->tokens, count(batch->row_begin)},
         {batch->row_begin, requests + 1},
         {batch->kv_len, requests},
         {{batch->page_begin, requests + 1}, {batch->page_index, count(batch->page_begin)}},
         session->draws};
  return true;
}

int step_batch(mkrt_session* session, const mkrt_batch* batch, mkrt_draws* draws, float* logits,
               int32_t* next) {
  mkrt::Batch step;
  if (!take(session, batch, draws, step) || failed(session->session.step(step, session->result, logits)) != 0)
    return 1;
  return give_all(session->result, next, draws);
}

// Passes a batch on to what does not wait for its result.
int pass(mkrt_session* session, const mkrt_batch* batch, const mkrt_draws* draws,
         Status (mkrt::Session::*to)(const mkrt::Batch&)) {
  return guarded(
      [&] {
        mkrt::Batch step;
        return take(session, batch, draws, step) ? failed((session->session.*to)(step)) : 1;
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

int mkrt_draw(mkrt_session* session, const int32_t* tokens, uint32_t count, mkrt_draws* draws) {
  return guarded(
      [&] {
        if (missing(session) || missing(tokens, "tokens") || missing(draws, "draws") || lacks_room(*draws))
          return 1;
        const mkrt::Draws wanted = draws_of(session->session, *draws);
        if (failed(session->session.step({tokens, count}, wanted, session->result)) != 0) return 1;
        return failed(give(session->result, 0, *draws));
      },
      1);
}

int mkrt_draw_batch(mkrt_session* session, const mkrt_batch* batch, mkrt_draws* draws) {
  return guarded(
      [&] { return missing(draws, "draws") ? 1 : step_batch(session, batch, draws, nullptr, nullptr); }, 1);
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

int mkrt_begin_step(mkrt_session* session, const mkrt_batch* batch, const mkrt_draws* draws) {
  return pass(session, batch, draws, &mkrt::Session::begin_step);
}

int mkrt_end_step(mkrt_session* session, int32_t* next, mkrt_draws* draws) {
  return guarded(
      [&] {
        if (missing(session) || failed(session->session.end_step(session->result)) != 0) return 1;
        return give_all(session->result, next, draws);
      },
      1);
}

int mkrt_capture_step(mkrt_session* session, const mkrt_draws* max) {
  return guarded(
      [&] {
        if (missing(session) || (max && lacks_room(*max))) return 1;
        return failed(session->session.capture_step(max ? draws_of(session->session, *max) : mkrt::Draws{}));
      },
      1);
}

int mkrt_fill_step(mkrt_session* session, const mkrt_batch* batch, const mkrt_draws* draws) {
  return pass(session, batch, draws, &mkrt::Session::fill_step);
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
