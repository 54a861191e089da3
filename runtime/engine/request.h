// Senders give requests in this form, and the engine hands back their results.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/session/bias.h"
#include "runtime/session/check_batch.h"
#include "runtime/session/sample.h"

namespace mkrt {

constexpr uint64_t kLatestArrival = ~uint64_t{0} / 2;  // the engine's clock goes on from there

struct Request {
  std::string name;  // for errors; empty: "request ID"
  std::vector<int32_t> prompt;
  uint32_t max_new_tokens = 16;
  MkSampling sampling;               // position: of the first sample
  uint32_t prompt_logprobs = 0;      // of the prompt's tokens but the first, as MkSampling::logprobs
  bool prompt_only = false;          // its new token is not wanted, and needs no finite logits
  BiasSettings bias;                 // what else changes its logits
  std::vector<int32_t> stop_ids;     // each ends the request, in addition to the engine's
  bool ignore_engine_stops = false;  // only the request's own stop ids end it
  int32_t priority = 0;              // a smaller number runs earlier; equal ones first come, first served
  bool stream = false;               // Engine::take_progress() hands out its tokens as they come
  uint64_t arrive_at_step = 0;       // on the engine's clock, at most kLatestArrival; a past step means now
};

enum class FinishReason : uint8_t { kStop, kLength, kError, kCancelled };

// Returns "stop", "length", "error" or "cancelled".
const char* finish_reason_name(FinishReason reason);

struct Outcome {
  uint64_t id = 0;
  std::vector<int32_t> new_ids;  // a stop id that ended them is the last
  std::vector<Sampled> samples;  // of new_ids, if log-probabilities were asked for
  std::vector<Sampled> prompt_samples =
      {};  // of the prompt's tokens from the second, with Request::prompt_logprobs
  FinishReason reason = FinishReason::kError;
  std::string error;  // `NAME: error: FIELD: …`, or the stepper's error
  ErrorKind error_kind = ErrorKind::kInvalid;
  uint32_t cached_tokens = 0;  // prompt tokens that were not fed, because the prefix cache had them
};

// Progress has the tokens that one launch sampled for a streamed request. They are in its Outcome, too.
struct Progress {
  uint64_t id = 0;
  std::vector<int32_t> ids;
  std::vector<Sampled> samples;              // of ids, if log-probabilities were asked for
  std::vector<Sampled> prompt_samples = {};  // beside the first ids, as in Outcome
  uint32_t cached_tokens = 0;                // as in Outcome

  bool operator==(const Progress&) const = default;
};

// Returns `NAME: error: FIELD: …` for the error `FIELD: error: …` of a check of one of the request's fields.
Error error_of(const Request& request, const Status& status);

// Returns the most positions that a request may need. The last new token is never fed.
//
// Errors read `NAME: error: FIELD: …`. Errors of the fields: an empty prompt, an id outside the vocabulary,
// no new tokens, a value of `sampling` outside its range, an arrival behind kLatestArrival. Errors of the
// size: more positions than the context, more pages than the cache.
Result<uint32_t> positions_of(const Request& request, const BatchLimits& limits);

}  // namespace mkrt
