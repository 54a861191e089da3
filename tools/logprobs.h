// Commands print log-probabilities as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "runtime/session/sample.h"

namespace mkc {

// Returns [{"id", "logprob", "top": [{"id", "logprob"}, …]}, …], one object per sample.
nlohmann::json logprobs_json(const std::vector<mkrt::Sampled>& samples);

}  // namespace mkc
