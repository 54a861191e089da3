// Log-probabilities as commands print them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "runtime/session/sample.h"

namespace mkc {

// [{"id", "logprob", "top": [{"id", "logprob"}, …]}, …]
nlohmann::json logprobs_json(const std::vector<mkrt::Sampled>& samples);

}  // namespace mkc
