// Continuous batching: requests join and leave between steps, and each gets the tokens it would get alone.
#pragma once

#include <map>
#include <optional>

#include "runtime/engine/step_plan.h"
#include "runtime/session/batch.h"
#include "runtime/session/check_batch.h"

namespace mkrt {

// A model that takes a step of several requests. All that the engine knows of kernels and devices.
class Stepper {
 public:
  virtual ~Stepper() = default;
  // Must stay the same.
  virtual BatchLimits limits() const = 0;
  // Feeds the rows of every request, and samples; the keys and values of earlier positions are in the pages
  // already. After an error nothing is fed again.
  virtual Status step(const Batch& batch, StepResult& result) = 0;
};

struct Request {
  std::string name;  // in errors; empty: "request ID"
  std::vector<int32_t> prompt;
  uint32_t max_new_tokens = 16;
  MkSampling sampling;          // position: of the first sample
  uint64_t arrive_at_step = 0;  // on the engine's clock; one that has passed: now
};

enum class FinishReason : uint8_t { kStop, kLength, kError };

// "stop", "length" or "error".
const char* finish_reason_name(FinishReason reason);

struct Outcome {
  uint64_t id = 0;
  std::vector<int32_t> new_ids;  // a stop id that ended them is the last
  std::vector<Sampled> samples;  // of new_ids, where log-probabilities were asked for
  FinishReason reason = FinishReason::kError;
  std::string error;  // `NAME: error: FIELD: …`, or what the stepper said
};

struct EngineOptions {
  Eviction eviction = Eviction::kNone;
  std::vector<int32_t> stop_ids = {};  // end a request
  uint32_t steps_per_launch = 1;       // at most; 1 while a prompt is fed, fewer where a request arrives
};

struct EngineStats {
  uint64_t launches = 0, steps = 0, rows = 0, evictions = 0;
};

// Not thread-safe. The stepper must outlive it. The same requests give the same steps.
class Engine {
 public:
  // Errors: a limit of the stepper that is zero; those of PagePool::create.
  static Result<Engine> open(Stepper& stepper, EngineOptions options = {});

  // Takes a request in and returns its id: 0, 1, … A request that can never run has its outcome at once, with
  // an error: an empty prompt, an id outside the vocabulary, no new tokens, a value of `sampling` outside its
  // range, more positions than the context, more pages than the cache.
  uint64_t submit(Request request);

  // Runs one launch for the requests that have arrived; where there are none, for the next to arrive, whose
  // step the clock goes to. Does nothing when idle.
  // Errors: the stepper's. All requests end with it then, and so does each that comes later.
  Status step();

  bool idle() const { return roster_.requests.empty() && later_.empty(); }
  uint64_t clock() const { return clock_; }  // the next step's number, from 0
  const EngineStats& stats() const { return stats_; }
  uint32_t free_pages() const { return pool_.available(); }

  // The requests that have finished since the last call, in that order.
  std::vector<Outcome> take_outcomes();

 private:
  Engine(Stepper& stepper, EngineOptions options, const BatchLimits& limits, PagePool pool);
  Status launch();
  uint32_t steps_of_launch() const;
  Result<Batch> fill_batch();
  Status take_tokens();
  void fail_all(const Error& error);

  Stepper* stepper_;
  EngineOptions options_;
  BatchLimits limits_;
  PagePool pool_;
  Roster roster_;
  std::multimap<uint64_t, Sequence> later_;  // by the step they arrive at
  std::vector<Outcome> outcomes_;
  std::optional<Error> fault_;
  EngineStats stats_;
  uint64_t clock_ = 0, next_id_ = 0;
  std::vector<int32_t> tokens_, row_begin_, kv_len_, page_begin_, page_index_;  // of the step
  std::vector<Samples> samples_;
  StepResult result_;
};

}  // namespace mkrt
