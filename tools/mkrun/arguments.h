// These are the arguments of mkrun.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/artefact/artefact.h"

namespace mkrt {

struct Arguments {
  std::string artefact, checkpoint, keep_weights, logits_out, trace;
  std::vector<int32_t> prompt;
  uint32_t max_new_tokens = 64, steps_per_launch = 1;
  bool compare_samples = false;
  uint64_t timeout_ms = 10'000;
  uint64_t random_seed = 1;
  std::optional<int> device;  // ordinal of the GPU
  // The members below are for timings.
  uint32_t steps = 0, warm_up = 10, hash_every = 16;
  std::vector<uint32_t> tokens{1}, batches{1}, contexts{128};
  SealCheck seal = SealCheck::kRequired;
  uint64_t positions = 0;  // positions of the cache; 0: as many as the largest timed step needs
};

}  // namespace mkrt
