// A case is a random model with settings that follow from a seed and a number alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/mode.h"
#include "frontend/request.h"
#include "runtime/session/kv_cache.h"
#include "tests/reference/coding.h"
#include "tests/reference/model.h"

namespace mkc::attack {

// A setting says how a model is compiled and run.
struct Setting {
  int64_t workers = 3, max_tokens = 16, max_requests = 4;
  bool bulk_copy = true, race = false;
  Scheduler scheduler = Scheduler::kAuto;
  std::vector<PlacementRule> placements;
  std::vector<SplitRule> splits;
  std::optional<int64_t> ring;
  Mode mode = Mode::kMegakernel;
  uint64_t device_seed = 0;
  uint32_t os_threads = 1;
  uint32_t page_size = 16;
  mkrt::CacheForm form = mkrt::CacheForm::kNhd;
  uint32_t feed_seed = 0;         // decides which sequences go into which step, with how many rows
  size_t max_rows = 16;           // greatest number of rows of a sequence in a step
  uint32_t steps_per_launch = 1;  // steps of a launch while tokens are generated
};

struct ModelCase {
  uint64_t number = 0;
  reference::Shape shape;
  uint32_t weights_seed = 0;
  std::optional<DType> cache;  // type of caches; none: that of the weights
  bool batch_invariant = false;
  std::optional<int64_t> wgmma_from;
  std::vector<size_t> lengths;  // lengths of the sequences
  uint32_t new_tokens = 0;      // tokens generated behind the first sequence
  std::vector<Setting> settings;
};

// `coding` is that of the weights; nothing: a random one in one case of four, else none.
ModelCase make_case(uint64_t seed, uint64_t number, std::optional<reference::Coding> coding = {});

// Returns one JSON object.
std::string to_json(const ModelCase& c);

}  // namespace mkc::attack
