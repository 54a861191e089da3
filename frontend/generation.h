// What a checkpoint says of generation: which tokens end a text, and how tokens are sampled by default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontend/node.h"

namespace mkc {

struct GenerationDefaults {
  // Of generation_config.json, config.json and the end token of tokenizer_config.json, each once, in this
  // order: a chat model's turn may end by another token than its text.
  std::vector<int32_t> end_ids;
  int32_t begin_id = -1;  // -1: none
  // As generation_config.json has them. Without do_sample, tokens are greedy: temperature 0.
  float temperature = 0;
  std::optional<uint32_t> top_k;
  std::optional<float> top_p, min_p, repetition_penalty;
  bool operator==(const GenerationDefaults&) const = default;
};

// Reads generation_config.json and tokenizer_config.json where the directory has them. Errors, at their
// places: files that are no JSON, ids that are none, sampling out of the bounds of docs/sampling.md.
Result<GenerationDefaults> read_generation(const std::string& directory, const Document& config);

}  // namespace mkc
