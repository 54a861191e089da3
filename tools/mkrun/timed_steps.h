// Steps of equal requests are timed.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/session/session.h"
#include "tools/mkrun/arguments.h"

namespace mkrt {

// Returns a cache of random keys and values for timed steps, because steps on zeros could be faster. The
// device frees the memory.
Result<CacheSpace> random_cache(const Arguments& a, const Manifest& m, Device& device);

// TimedStep has `count` tokens of each of `batch` requests, which then have `context` positions.
struct TimedStep {
  uint32_t batch, count, context;
};

// Returns the steps that the arguments ask for, without those that need more than --cache-positions. Errors:
// a step is larger than the artefact's, or its context is shorter than its tokens.
Result<std::vector<TimedStep>> timed_steps(const Arguments& a, const Session& session);

// Repeats one launch and returns the times of its steps, by the host's clock around each launch. A separate
// single step after every hash_every launches gives a hash of the logits.
Result<nlohmann::json> time_step(const Arguments& a, Session& session, const TimedStep& step);

}  // namespace mkrt
