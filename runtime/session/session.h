// A model on a device: a kernel bound to weights, with a cache for its requests.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/artefact/artefact.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/device/device.h"
#include "runtime/session/check_batch.h"
#include "runtime/session/kv_cache.h"
#include "runtime/session/sample.h"
#include "runtime/session/trace.h"

namespace mkrt {

// The cache of a session: the caller's, or of its own in pages of a form.
struct CacheOptions {
  uint32_t page_size = 16;  // positions: 16, 32 or 64
  uint32_t pages = 0;       // 0: as many as hold one request of the whole context
  CacheForm form = CacheForm::kNhd;
  std::optional<CacheSpace>
      space{};  // the caller's, which must outlive the session; the others are unused then
};

struct SessionOptions {
  uint64_t timeout_ns = 10'000'000'000;  // a wait inside the kernel that lasts longer is a fault; 0: never
  uint64_t stream = 0;                   // of its launches: a CUstream as an integer; 0: the default one
  CacheOptions cache{};
  uint32_t trace_stamps = 8192;  // that a traced kernel keeps of each track; there are two for each worker
  SealCheck seal = SealCheck::kRequired;
};

constexpr uint32_t kMaxUnderWay = 2;  // launches of a session

// Gives the bytes of one weight as its manifest entry lays them out.
using WeightSource = std::function<Status(const ManifestWeight& weight, std::span<std::byte> out)>;

// Random weights of a model that is at hand as an artefact only, for timings: normal values, the same for a
// seed, small enough that activations stay finite.
WeightSource random_weights(uint64_t seed);

// Not thread-safe. The device must outlive it; the checkpoint may be closed once it is open.
class Session {
 public:
  // Loads kernel and weights. Errors: those of check_artefact and check_weights; `config_hash` (of the
  // checkpoint's config.json) other than the manifest's; no memory; what the device says.
  static Result<Session> open(const Artefact& artefact, const Checkpoint& checkpoint,
                              const std::string& config_hash, Device& device,
                              const SessionOptions& options = {});
  // The same with weights from elsewhere.
  static Result<Session> open(const Artefact& artefact, const WeightSource& weights, Device& device,
                              const SessionOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const Manifest& manifest() const;
  const BatchLimits& limits() const;
  uint32_t max_tokens() const { return limits().max_tokens; }  // of one step
  uint32_t context() const { return limits().context; }        // positions of a request

  // Takes another cache; what was in the old one is forgotten. Errors: those of check_cache, no memory for
  // it: nothing has changed then. No memory for a step of so many pages: the session cannot go on.
  Status use_cache(const CacheOptions& options);

  // Takes other scales of an e4m3 cache, [caches, heads], than the checkpoint's (1 where it has none). Keys
  // and values that are there are read with them too. Errors: those of check_scales: nothing has changed
  // then.
  Status use_scales(std::span<const float> scales);

  // A launch for several requests, whose pages the caller gives out: as many steps as the longest takes to
  // sample its tokens. `logits`: null, or [rows, vocab] to fill, where nobody samples more than one token.
  // Errors: those of check_batch, after which nothing has changed; a fault in the kernel, which names worker,
  // task, event, seen and expected counts: the session cannot go on.
  Status step(const Batch& batch, StepResult& result, float* logits = nullptr);

  // The same in two parts, with up to kMaxUnderWay launches under way, or one of several steps. begin_step
  // puts copies and launch on the session's stream and returns: it waits for nothing, and allocates only for
  // samples that need more memory than any before. end_step waits for the oldest launch and gives what it
  // drew. Errors: as of step; too many are under way, or none.
  Status begin_step(const Batch& batch);
  Status end_step(StepResult& result);
  // While the session's stream is being captured: puts a launch for any batch into the graph, whose requests
  // sample no more than `max`. Before each run of the graph on that stream fill_step takes the batch, behind
  // it end_step gives what it drew. Errors: nothing is captured; more samples than the first time.
  Status capture_step(const Samples& max = {});
  Status fill_step(const Batch& batch);
  // Device address of the last launch's logits, float [requests, vocab], or [rows, vocab] with
  // Batch::all_logits.
  uint64_t logits_address() const;
  // The first bytes of a tensor of the workspace (the manifest's name) as the last step left it: its rows
  // where each activation has memory of its own (mkc compile --keep-activations), else those of whatever was
  // there last. Errors: no such tensor, or a smaller one; a step is under way.
  Status read_tensor(const std::string& name, std::span<std::byte> to) const;
  // What the last launch stamped, also one that ended by a fault. Errors: the kernel is not traced; a step is
  // under way.
  Result<Trace> read_trace() const;
  // From the next launch on. Error: one is under way.
  Status set_stream(uint64_t stream);
  void set_timeout(uint64_t timeout_ns);

  // A session also keeps one sequence of its own, in the first pages of the cache.
  uint32_t position() const;  // tokens fed to it so far
  // The next token fed goes to this position; those before it that were never fed hold whatever the cache
  // does. Requires position <= context().
  void set_position(uint32_t position);
  // Feeds tokens, at most max_tokens(), at the positions that follow, and samples what follows them; all but
  // the last of these are fed, too. `logits`: null, or [tokens, vocab] to fill, for at most one sample.
  // Errors: no tokens or too many, an id outside the vocabulary, a full cache, those of check_batch: nothing
  // has changed then; a fault.
  Status step(std::span<const int32_t> tokens, const Samples& samples, StepResult& result,
              float* logits = nullptr);
  // The same for one greedy sample, which is returned.
  Result<int32_t> step(std::span<const int32_t> tokens, float* logits = nullptr);

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct GenerateOptions {
  uint32_t max_new_tokens = 16;
  uint32_t steps_per_launch = 1;            // at most; logits are read from launches of one step
  std::vector<int32_t> stop_ids;            // ends generation; the id itself is kept
  MkSampling sampling;                      // position: of the first sample; it counts up with each
  std::function<bool(int32_t)> on_token;    // called with each new token; false ends generation
  std::vector<float>* logits = nullptr;     // gets one row of the vocabulary for every token fed
  std::vector<Sampled>* samples = nullptr;  // gets one for every new token
};

// Feeds the prompt in steps of at most max_tokens() and generates. Returns the new tokens.
// Errors: an empty prompt; prompt and new tokens that exceed the context, values of `sampling` outside their
// ranges, before anything has run; those of Session::step.
Result<std::vector<int32_t>> generate(Session& session, std::span<const int32_t> prompt,
                                      const GenerateOptions& options);

}  // namespace mkrt
