// The text of a model ends for one of these reasons, which people are told.
#pragma once

#include <cstdint>

#include "runtime/engine/request.h"

namespace mkc {

enum class AnswerEnd : uint8_t { kEndToken, kLength, kContextFull, kInterrupted };

// Returns "an end token", "--max-new-tokens", "the end of the context" or "Ctrl-C".
const char* answer_end_name(AnswerEnd end);

// NewTokenLimit is the most new tokens of a text, and what sets it.
struct NewTokenLimit {
  uint32_t tokens = 0;
  AnswerEnd end = AnswerEnd::kLength;  // kLength or kContextFull
};

// Returns the limit behind a prompt of 1 to `positions` tokens. `wanted` new tokens are cut to what the
// context leaves.
NewTokenLimit limit_new_tokens(uint32_t wanted, uint64_t prompt, uint64_t positions);

}  // namespace mkc
