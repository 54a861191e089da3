// A session is a model on a device, that is, a kernel bound to weights, with a cache for its requests.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/artefact/artefact.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/device/device.h"
#include "runtime/session/bias.h"
#include "runtime/session/check_batch.h"
#include "runtime/session/faulty_weights.h"
#include "runtime/session/kept_folder.h"
#include "runtime/session/kv_cache.h"
#include "runtime/session/sample.h"
#include "runtime/session/trace.h"

namespace mkrt {

// CacheOptions describes a session's cache: memory of the caller, or the session's own pages in a form.
struct CacheOptions {
  uint32_t page_size = 16;          // positions: 16, 32 or 64
  uint32_t pages = 0;               // 0: as many as one request of the whole context needs
  std::optional<CacheForm> form{};  // none: best_form()
  std::optional<CacheSpace>
      space{};  // the caller's, which must outlive the session; replaces the other options
};

struct SessionOptions {
  uint64_t timeout_ns = 10'000'000'000;  // a longer wait inside the kernel is a fault; 0: never
  uint64_t stream = 0;                   // for launches: a CUstream as an integer; 0: the default stream
  CacheOptions cache{};
  uint32_t trace_stamps = 8192;  // stamps that a traced kernel keeps of each track; a worker has two tracks
  SealCheck seal = SealCheck::kRequired;
  KeptFolder kept_weights{};  // where packed weights of checkpoints are kept (docs/processor.md)
  bool find_faulty = false;   // look for weights that are not finite
  // Called before each weight is packed, with the bytes of packed weights before it and of all.
  std::function<void(uint64_t done, uint64_t all)> on_packing = {};
};

// WeightsReport says how a session got its weights.
struct WeightsReport {
  bool mapped = false;                // from a kept file, and not packed by this session
  std::string file;                   // the kept file that was found or made; empty: none
  double seconds = 0;                 // to find them, or to pack and keep them
  std::vector<FaultyTensor> faulty;   // with SessionOptions::find_faulty, and of a kept file
  std::vector<std::string> warnings;  // why a kept file was not used, or none was made: `FILE: warning: …`
};

constexpr uint32_t kMaxUnderWay = 2;  // most launches of a session that have begun and not ended

// WeightSource writes the bytes of one weight, laid out as its manifest entry says.
using WeightSource = std::function<Status(const ManifestWeight& weight, std::span<std::byte> out)>;

// Returns a source of random weights, for timings of a model without its checkpoint. Values are normal, equal
// for equal seeds, and so small that activations stay finite.
WeightSource random_weights(uint64_t seed);

// A session is not thread-safe. The device must outlive it. The checkpoint may be closed after open().
class Session {
 public:
  // Loads kernel and weights, or maps packed weights that an earlier session kept. Errors: those of
  // check_artefact and check_weights; a `config_hash` other than the manifest's; no memory; those of the
  // device. `config_hash` is hash_hex() of the checkpoint's config.json.
  static Result<Session> open(const Artefact& artefact, const Checkpoint& checkpoint,
                              const std::string& config_hash, Device& device,
                              const SessionOptions& options = {});
  // Loads the kernel, and the weights from a source other than a checkpoint.
  static Result<Session> open(const Artefact& artefact, const WeightSource& weights, Device& device,
                              const SessionOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const Manifest& manifest() const;
  const BatchLimits& limits() const;
  const WeightsReport& weights() const;
  uint32_t max_tokens() const { return limits().max_tokens; }  // of one step
  uint32_t context() const { return limits().context; }        // positions of a request

  // Takes another cache; the contents of the old one are lost. Errors: those of check_cache, no memory for
  // the cache, a step under way, a captured step; nothing has changed then.
  //
  // The session cannot go on if there is no memory for a step of so many pages.
  Status use_cache(const CacheOptions& options);

  // Takes scales [caches, heads] of e4m3 caches in place of the checkpoint's, which are 1 where it has none.
  // The scales also apply to keys and values already in the cache, so that the position is 0 then. Errors:
  // those of check_scales; a step under way; nothing has changed then.
  Status use_scales(std::span<const float> scales);

  // Makes a launch for several requests, whose pages the caller assigns. The launch has as many steps as the
  // longest request takes to sample its tokens.
  //
  // `logits` is null, or [rows, vocab] to fill, if no request samples more than one token. Errors: those of
  // check_batch, after which nothing has changed; a fault in the kernel.
  //
  // The error of a fault names worker, task, event, seen and expected counts. The session cannot go on after
  // it.
  Status step(const Batch& batch, StepResult& result, float* logits = nullptr);

  // begin_step() and end_step() are step() in two parts. Up to kMaxUnderWay launches may be under way, or one
  // launch of several steps.
  //
  // begin_step() puts copies and launch on the session's stream and does not wait. begin_step() allocates
  // only for samples that need more memory than all before. end_step() waits for the oldest launch and
  // returns its samples.
  //
  // Errors: those of step(); too many launches are under way, or none.
  Status begin_step(const Batch& batch);
  Status end_step(StepResult& result);
  bool has_step_under_way() const;
  // capture_step() puts a launch into the graph that is captured on the session's stream. The launch fits any
  // batch whose requests sample no more than `max`.
  //
  // fill_step() takes the batch before each run of the graph on that stream. end_step() returns the samples
  // after the run. Errors: no capture is going on; more samples than the first captured step has room for;
  // the device has no streams.
  Status capture_step(const Samples& max = {});
  Status fill_step(const Batch& batch);
  // Returns the device address of the last launch's logits: float [requests, vocab], or [rows, vocab] with
  // Batch::all_logits.
  uint64_t logits_address() const;
  // Reads the first bytes of a workspace tensor, by the manifest's name, after the last step. The bytes are
  // the tensor's rows if each activation has memory of its own (mkc compile --keep-activations). Without that
  // option the bytes may be those of a later activation in the same memory.
  //
  // Errors: no such tensor, or a smaller one; a step is under way.
  Status read_tensor(const std::string& name, std::span<std::byte> to) const;
  // Returns the stamps of the last launch, also of one that ended by a fault. Errors: the kernel is not
  // traced; a step is under way.
  Result<Trace> read_trace() const;
  // Writes the trace to a file (docs/trace.md). Errors: those of read_trace(); the file cannot be written.
  Status write_trace(const std::string& path) const;
  // Sets the stream from the next launch on. Errors: a launch is under way; the device has no streams, and
  // it is not 0.
  Status set_stream(uint64_t stream);
  void set_timeout(uint64_t timeout_ns);

  // A session also keeps a sequence of its own, in the first pages of the cache.
  uint32_t position() const;  // tokens fed to the sequence so far
  // Sets the position of the next token fed. Earlier positions that were never fed hold whatever the cache
  // holds there. Requires position <= context().
  void set_position(uint32_t position);
  // Feeds at most max_tokens() tokens at the next positions, and samples the tokens that follow. All sampled
  // tokens but the last are fed, too. `logits` is null, or [tokens, vocab] to fill, for at most one sample.
  //
  // Errors: no tokens or too many, an id outside the vocabulary, a full cache, those of check_batch; nothing
  // has changed then. A fault is an error, too.
  Status step(std::span<const int32_t> tokens, const Samples& samples, StepResult& result,
              float* logits = nullptr);
  // Feeds tokens and returns one greedy sample.
  Result<int32_t> step(std::span<const int32_t> tokens, float* logits = nullptr);

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct GenerateOptions {
  uint32_t max_new_tokens = 16;
  uint32_t steps_per_launch = 1;          // at most, and at most kMaxSteps; 1 where logits are read
  std::vector<int32_t> stop_ids;          // an id that ends generation; the id itself is kept
  MkSampling sampling;                    // position: of the first sample; counts up with each sample
  BiasSettings bias;                      // what else changes the logits
  std::function<void(size_t)> on_fed;     // called after each chunk of the prompt but the last, with its end
  std::function<bool(int32_t)> on_token;  // called with each new token; false ends generation
  std::vector<float>* logits = nullptr;   // receives one row [vocab] for every token fed
  std::vector<Sampled>* samples = nullptr;  // receives one for every new token
  bool* not_finite = nullptr;               // set if a token had no finite greatest logit
};

// Feeds the prompt in steps of at most max_tokens(), generates, and returns the new tokens. Errors before any
// launch: an empty prompt; ids outside the vocabulary; prompt and new tokens that exceed the context; values
// of `sampling` or `bias` outside their ranges. Later errors: those of Session::step.
Result<std::vector<int32_t>> generate(Session& session, std::span<const int32_t> prompt,
                                      const GenerateOptions& options);

}  // namespace mkrt
