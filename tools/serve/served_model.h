// The server serves one model and knows its files, limits and defaults.
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

// ReadTrace returns the trace file of the last launch (docs/trace.md), on the engine's thread between
// launches. Errors: those of the device.
using ReadTrace = std::function<mkrt::Result<std::string>()>;

// A ServedModel is immutable, so that threads may share it.
struct ServedModel {
  std::string name;
  mkrt::Tokenizer tokenizer;
  std::string device;         // name of the device that runs it
  RenderChat render_chat;     // null: the model has no chat template
  ReadTrace read_trace;       // null: the kernel is not traced
  mkrt::MkSampling sampling;  // of requests that give no fields
  mkrt::BatchLimits limits;
  std::vector<int32_t> end_ids;  // each ends a text
  int64_t created = 0;           // seconds since 1970

  uint32_t positions() const { return positions_of_request(limits); }
};

}  // namespace mkc
