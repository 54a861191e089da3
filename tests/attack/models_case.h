// A case is a random model with settings. The case follows from a seed, a number and a device alone.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/mode.h"
#include "frontend/request.h"
#include "runtime/abi/sampling.h"
#include "runtime/session/kv_cache.h"
#include "tests/reference/coding.h"
#include "tests/reference/model.h"

namespace mkc::attack {

enum class DeviceKind : uint8_t { kProcessor, kEmulator };
const char* device_name(DeviceKind device);  // "cpu" or "emulator"

// A run says how a compiled model is run.
struct Run {
  uint64_t device_seed = 0;  // of the emulator's order of threads
  uint32_t os_threads = 1;   // of the emulator
  uint32_t page_size = 16;
  mkrt::CacheForm form = mkrt::CacheForm::kNhd;
  uint32_t feed_seed = 0;         // decides which sequences go into which step, with how many rows
  size_t max_rows = 16;           // greatest number of rows of a sequence in a step
  uint32_t steps_per_launch = 1;  // steps of a launch while tokens are generated
};

// A setting says how a model is compiled.
struct Setting {
  int64_t workers = 3, max_tokens = 16, max_requests = 4;
  bool bulk_copy = true, race = false;  // of the emulator
  bool quick = true;
  Scheduler scheduler = Scheduler::kAuto;
  std::vector<PlacementRule> placements;
  std::vector<SplitRule> splits;
  std::optional<int64_t> ring;
  Mode mode = Mode::kMegakernel;
  std::vector<Run> runs;
};

struct ModelCase {
  uint64_t number = 0;
  DeviceKind device = DeviceKind::kEmulator;
  std::string target = "emulator";
  reference::Shape shape;
  uint32_t weights_seed = 0;
  std::optional<DType> cache;  // type of caches; none: that of the weights
  bool batch_invariant = false;
  std::optional<int64_t> wgmma_from;
  std::vector<size_t> lengths;  // lengths of the sequences
  size_t prompt = 1;            // length of a prompt, with which the first sequence begins
  uint32_t new_tokens = 0;      // tokens generated behind a prompt
  mkrt::MkSampling sampling{};  // of these
  std::vector<Setting> settings;
};

// The families that cases have.
inline constexpr const char* kFamilies[] = {"llama",     "qwen2",   "qwen3",  "mistral",
                                            "qwen3_moe", "mixtral", "gpt_oss"};

// Asked is what all cases have instead of a random choice.
struct Asked {
  std::optional<std::string> family;
  std::optional<reference::Coding> coding;  // of the weights; nothing: a random one, or none
};

// Tells whether checkpoints of a family may have a coding. Those of gpt_oss have MXFP4 alone.
bool may_have(const std::string& family, reference::Coding coding);

// Requires a family that may have the coding, where both are asked for.
ModelCase make_case(uint64_t seed, uint64_t number, DeviceKind device, const Asked& asked = {});

// Returns one JSON object.
std::string to_json(const ModelCase& c);

// Returns what a case has, so that a report can count it: "coding awq", "group 17".
std::set<std::string> features_of(const ModelCase& c);

}  // namespace mkc::attack
