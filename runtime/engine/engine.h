// Continuous batching: requests join and leave between steps. A request gets the tokens that it would get
// alone.
#pragma once

#include <map>
#include <optional>

#include "runtime/engine/step_plan.h"
#include "runtime/session/batch.h"
#include "runtime/session/check_batch.h"

namespace mkrt {

// A Stepper is a model that runs steps of several requests. The engine knows nothing else about kernels and
// devices.
class Stepper {
 public:
  virtual ~Stepper() = default;
  // Returns the limits, which must stay the same.
  virtual BatchLimits limits() const = 0;
  // Feeds the rows of every request and samples. The pages already hold keys and values of earlier positions.
  // The engine feeds nothing after an error.
  virtual Status step(const Batch& batch, StepResult& result) = 0;
};

struct Request {
  std::string name;  // for errors; empty: "request ID"
  std::vector<int32_t> prompt;
  uint32_t max_new_tokens = 16;
  MkSampling sampling;          // position: of the first sample
  uint64_t arrive_at_step = 0;  // on the engine's clock; a past step means now
};

enum class FinishReason : uint8_t { kStop, kLength, kError };

// Returns "stop", "length" or "error".
const char* finish_reason_name(FinishReason reason);

struct Outcome {
  uint64_t id = 0;
  std::vector<int32_t> new_ids;  // a stop id that ended them is the last
  std::vector<Sampled> samples;  // of new_ids, if log-probabilities were asked for
  FinishReason reason = FinishReason::kError;
  std::string error;  // `NAME: error: FIELD: …`, or the stepper's error
};

struct EngineOptions {
  Eviction eviction = Eviction::kNone;
  std::vector<int32_t> stop_ids = {};  // each ends a request
  uint32_t steps_per_launch = 1;       // at most; 1 while a prompt is fed; fewer if a request arrives before
};

struct EngineStats {
  uint64_t launches = 0, steps = 0, rows = 0, evictions = 0;
};

// An engine is not thread-safe. The stepper must outlive the engine. Equal requests give equal steps.
class Engine {
 public:
  // Returns an idle engine. Errors: a limit of the stepper is zero; those of PagePool::create.
  static Result<Engine> open(Stepper& stepper, EngineOptions options = {});

  // Takes a request and returns its id: 0, 1, … A request that can never run has an outcome with an error at
  // once.
  //
  // Errors of the request's fields: an empty prompt, an id outside the vocabulary, no new tokens, a value of
  // `sampling` outside its range. Errors of its size: more positions than the context, more pages than the
  // cache.
  uint64_t submit(Request request);

  // Runs one launch for the requests that have arrived. The clock goes to the step of the next arrival if
  // none has. Does nothing when idle.
  //
  // Errors: the stepper's. An error ends all requests and every later one.
  Status step();

  bool idle() const { return roster_.requests.empty() && later_.empty(); }
  uint64_t clock() const { return clock_; }  // number of the next step, from 0
  const EngineStats& stats() const { return stats_; }
  uint32_t free_pages() const { return pool_.available(); }

  // Returns the requests that have finished since the last call, in the order in which they finished.
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
  std::multimap<uint64_t, Sequence> later_;  // by step of arrival
  std::vector<Outcome> outcomes_;
  std::optional<Error> fault_;
  EngineStats stats_;
  uint64_t clock_ = 0, next_id_ = 0;
  std::vector<int32_t> tokens_, row_begin_, kv_len_, page_begin_, page_index_;  // of the step
  std::vector<Samples> samples_;
  StepResult result_;
};

}  // namespace mkrt
