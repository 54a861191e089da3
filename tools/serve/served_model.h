// What the server knows of its model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/abi/sampling.h"
#include "runtime/session/check_batch.h"
#include "runtime/text/tokenizer.h"
#include "tools/chat_prompt.h"

namespace mkc {

// Returns the most positions that a request may have.
uint32_t positions_of_request(const mkrt::BatchLimits& limits);

// A ServedModel is immutable, so that threads may share it.
struct ServedModel {
  std::string name;
  mkrt::Tokenizer tokenizer;
  RenderChat render_chat;     // null: the model has no chat template
  mkrt::MkSampling sampling;  // of requests that give no fields
  mkrt::BatchLimits limits;
  std::vector<int32_t> end_ids;  // each ends a text
  int64_t created = 0;           // seconds since 1970

  uint32_t positions() const { return positions_of_request(limits); }
};

}  // namespace mkc
