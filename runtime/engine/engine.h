// The engine batches continuously: requests join and leave between steps. A request gets the tokens that it
// would get alone.
#pragma once

#include <map>
#include <optional>

#include "runtime/engine/request.h"
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
  // The engine feeds nothing after an error, unless recover() succeeds.
  virtual Status step(const Batch& batch, StepResult& result) = 0;
  // Makes steps possible again after an error, with pages that hold nothing. Error: they are impossible for
  // now; a later call may succeed.
  virtual Status recover() { return Error{"steps are impossible after an error"}; }
  // Tells whether a step is possible, without running one. Errors: those of step() that are known already.
  virtual Status check() { return {}; }
};

constexpr uint32_t kMaxLosses = 3;  // errors of the stepper, while a request runs and gets no token

struct EngineOptions {
  Preemption preemption = Preemption::kNone;
  std::vector<int32_t> stop_ids = {};  // each ends a request that does not ignore them
  bool prefix_cache = false;           // requests share the pages of equal prefixes
  // Rows of prompts in a step that also decodes; 0: no bound. A decode waits for the other rows of its step.
  uint32_t max_rows_beside_decodes = 0;
  // At most, and at most kMaxSteps; 1 while a prompt is fed; fewer if a request arrives before.
  uint32_t steps_per_launch = 1;
};

// EngineStats counts since the engine was opened, and says what it has now.
struct EngineStats {
  uint64_t launches = 0, steps = 0, rows = 0;
  uint64_t preemptions = 0;           // how often a running request gave up its pages
  uint64_t recoveries = 0;            // how often the stepper lost all pages and recovered
  uint64_t prefix_queries = 0;        // tokens of admitted prompts that were looked up in the prefix cache
  uint64_t prefix_hits = 0;           // of these, the ones that the prefix cache had
  uint32_t running = 0, waiting = 0;  // requests now; those that arrive later wait, too
  uint32_t pages = 0;                 // of the cache
  uint32_t pages_used = 0;            // those that running requests have now, each counted once
};

// An engine is not thread-safe. The stepper must outlive the engine. Equal requests give equal steps.
class Engine {
 public:
  // Returns an idle engine. Errors: a limit of the stepper is zero; those of PagePool::create.
  static Result<Engine> open(Stepper& stepper, EngineOptions options = {});

  // Takes a request and returns its id: 0, 1, … A request that can never run has an outcome with an error at
  // once. Errors: those of positions_of().
  uint64_t submit(Request request);

  // Ends a request between launches. Its outcome has the tokens so far. Returns false if no unfinished
  // request has this id.
  bool cancel(uint64_t id);

  // Runs one launch for the requests that have arrived. The clock goes to the step of the next arrival if
  // none has. Does nothing when idle.
  //
  // After an error of which the stepper recovers, the running requests are fed again from their first token.
  // A request that was running in kMaxLosses errors since its last token ends with the error.
  //
  // Errors: the stepper's, if it does not recover. Such an error ends all requests, and every later one until
  // check() succeeds. After an exception, which is std::bad_alloc, the next call ends all requests in the
  // same way.
  Status step();

  // Asks the stepper whether steps are possible while no launch runs, and goes on after an error as step()
  // does. An error that ended all requests is over once the stepper recovers in a later call. Errors: those
  // of step().
  Status check();

  bool idle() const { return roster_.running.empty() && roster_.waiting.empty() && later_.empty(); }
  uint64_t clock() const { return clock_; }  // number of the next step, from 0
  EngineStats stats() const;
  // Returns how many pages no request has. Some may hold tokens of the prefix cache.
  uint32_t free_pages() const { return pages_.available(); }

  // Returns the requests that have finished since the last call, in the order in which they finished.
  std::vector<Outcome> take_outcomes();

  // Returns the new tokens of streamed requests since the last call, in the order in which launches sampled
  // them.
  std::vector<Progress> take_progress();

 private:
  Engine(Stepper& stepper, EngineOptions options, const BatchLimits& limits, SharedPages pages);
  void take_arrivals();
  Status launch();
  uint32_t steps_of_launch() const;
  Result<Batch> fill_batch();
  void add_scored_rows(const Sequence& request);
  Status take_tokens();
  bool take_scores(Sequence& request, size_t b);
  Result<bool> take_tokens(Sequence& request, size_t b);
  void hand_on(Sequence& request, size_t b, std::span<const int32_t> sampled);
  void end(Sequence& request, FinishReason reason, const Error& error = {});
  Status go_on(const Status& status);
  void start_over(const Error& error);
  void fail_all(const Error& error);

  Stepper* stepper_;
  EngineOptions options_;
  BatchLimits limits_;
  SharedPages pages_;
  Roster roster_;
  std::multimap<uint64_t, Sequence> later_;  // by step of arrival
  std::vector<Outcome> outcomes_;
  std::vector<Progress> progress_;
  std::optional<Error> fault_;
  bool interrupted_ = false;  // a launch has not ended: requests, pages and samplers may not agree
  EngineStats stats_;
  uint64_t clock_ = 0, next_id_ = 0, arrivals_ = 0;
  std::vector<int32_t> tokens_, row_begin_, kv_len_, page_begin_, page_index_;  // of the step
  std::vector<Samples> samples_;
  std::vector<ScoredRow> scored_;
  size_t scores_taken_ = 0;  // of the step's scored rows
  StepResult result_;
};

}  // namespace mkrt
