// Log-probabilities as commands print them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "runtime/draw.h"

namespace mkc {

// [{"id", "logprob", "top": [{"id", "logprob"}, …]}, …]
nlohmann::json logprobs_json(const std::vector<mkrt::Drawn>& draws);

}  // namespace mkc
