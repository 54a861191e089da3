// A sender asks for changes of a request's logits beside the repetition penalty.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/base/status.h"

namespace mkrt {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();  // the bias that forbids an id

struct LogitBias {
  int32_t id;
  float value;  // added to the id's logit
};

// BiasSettings say which logits of a request are changed beside the repetition penalty. docs/sampling.md
// gives the order.
struct BiasSettings {
  std::vector<LogitBias> logit_bias = {};  // at most one for an id
  float presence_penalty = 0;   // -2 to 2; taken off the logit of each id that the request has sampled
  float frequency_penalty = 0;  // -2 to 2; taken off as often as the id was sampled
  uint32_t min_new_tokens = 0;  // no stop id, the engine's included, is among as many first tokens
  std::vector<int32_t> allowed_ids = {};  // all other ids are forbidden; empty: none is
};

// Checks ranges, and that an id is left to sample. `end_ids` are those that min_new_tokens forbids. Errors
// name the field.
Status check_bias(const BiasSettings& bias, std::span<const int32_t> end_ids, size_t vocab);

}  // namespace mkrt
