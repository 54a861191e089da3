// Model takes a checkpoint through all of mkc, to logits on the emulator. MKC_TEST_DEVICE in the environment
// names a target of the processor to run on instead: x86-64, x86-64-v3, x86-64-avx512, x86-64-v4 or
// x86-64-amx.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/session/session.h"
#include "tests/reference/model.h"
#include "tools/artefact.h"

namespace mkc::test {

struct Build {
  uint32_t workers = 4;
  bool bulk_copy = true;
  bool race = false;
  int64_t max_tokens = 16;
  int64_t max_requests = 8;
  bool batch_invariant = false;
  std::optional<int64_t> wgmma_from{};
  Activations activations = Activations::kBf16;
  std::optional<int64_t> context{};
  std::optional<DType> kv_dtype{};
  Scheduler scheduler = Scheduler::kStatic;
  std::vector<PlacementRule> placements{};
  std::vector<SplitRule> splits{};
  Mode mode = Mode::kMegakernel;
  std::vector<std::string> without{};  // features of the target that the code goes without
  bool quick = true;                   // false for many steps: see HostOptions and make_processor_object()
};

// Returns the cache of machine code for the emulator. The tests of one build share it, so that equal
// schedules compile once.
Cache test_cache();

// Opened is a session and the device it runs on.
struct Opened {
  std::unique_ptr<mkrt::Device> device;
  mkrt::Session session;
};

// Tells whether models run on the processor. What only the emulator has is then ignored: races, the kind of
// copies, seeds and disturbances.
bool on_processor();

// Model is a compiled model. A failure ends the test.
class Model {
 public:
  explicit Model(const std::string& directory, const Build& build = {});
  // Writes a temporary checkpoint and removes it once its files are mapped.
  explicit Model(const reference::Model& weights, const Build& build = {});

  struct Output {
    std::vector<int32_t> tokens;  // the new tokens
    std::vector<float> logits;    // [fed][vocab]
  };
  // Opens a session, feeds the prompt in chunks and generates greedily.
  Output generate(const std::vector<int32_t>& prompt, uint32_t new_tokens,
                  const mkrt::EmulatorDeviceOptions& options = {}) const;

  Opened open(const mkrt::SessionOptions& session = {}, const mkrt::EmulatorDeviceOptions& device = {}) const;
  mkrt::Session open_on(mkrt::Device& device, const mkrt::SessionOptions& session = {}) const;
  std::unique_ptr<mkrt::Device> open_device(mkrt::EmulatorDeviceOptions options = {}) const;

  const Schedule& schedule() const { return schedule_; }
  uint64_t vocab() const { return host_.artefact.manifest.vocab; }

 private:
  std::string config_hash_;
  mkrt::Checkpoint checkpoint_;
  Schedule schedule_;
  HostArtefact host_;  // without a kernel where the artefact has an image for the processor
  bool race_;
};

// Tells whether tokens and the bits of all logits are equal.
bool same_bits(const Model::Output& a, const Model::Output& b);

// Returns small random weights of a family. Those of qwen3_moe have 6 experts.
reference::Model random_weights(const std::string& family, reference::Type type = reference::Type::kF32);

// Returns token ids without meaning, which differ for each length.
std::vector<int32_t> prompt_of(size_t length, uint64_t vocab);

}  // namespace mkc::test
