// A checkpoint through the whole of mkc, to logits on the emulator.
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
  std::optional<int64_t> context{};
  std::optional<DType> kv_dtype{};
  Scheduler scheduler = Scheduler::kStatic;
  std::vector<PlacementRule> placements{};
  std::vector<SplitRule> splits{};
  Mode mode = Mode::kMegakernel;
  bool quick = true;  // false for many steps: see HostOptions
};

// A session and the device it runs on.
struct Opened {
  std::unique_ptr<mkrt::Device> device;
  mkrt::Session session;
};

// A model compiled for the emulator. A failure ends the test.
class Model {
 public:
  explicit Model(const std::string& directory, const Build& build = {});
  // Its checkpoint is gone once it has been mapped.
  explicit Model(const reference::Model& weights, const Build& build = {});

  struct Output {
    std::vector<int32_t> tokens;  // the new ones
    std::vector<float> logits;    // [fed][vocab]
  };
  // A new session that feeds the prompt by chunks and generates greedily.
  Output generate(const std::vector<int32_t>& prompt, uint32_t new_tokens,
                  const mkrt::EmulatorDeviceOptions& options = {}) const;

  Opened open(const mkrt::SessionOptions& session = {}, const mkrt::EmulatorDeviceOptions& device = {}) const;

  const Schedule& schedule() const { return schedule_; }
  uint64_t vocab() const { return host_.artefact.manifest.vocab; }

 private:
  std::string config_hash_;
  mkrt::Checkpoint checkpoint_;
  Schedule schedule_;
  HostArtefact host_;
  bool race_;
};

// Token ids without meaning, other ones for each length.
std::vector<int32_t> prompt_of(size_t length, uint64_t vocab);

}  // namespace mkc::test
