// A checkpoint says which tokens end a text, and how it is sampled by default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontend/node.h"

namespace mkc {

struct GenerationDefaults {
  // Ids that end a text, each once. generation_config.json comes first, then config.json, then the
  // tokenizer's end token. A chat model's turn may end by another token than its text.
  std::vector<int32_t> end_ids;
  int32_t begin_id = -1;  // the first bos_token_id of config.json; -1: none
  // The values of generation_config.json, or of config.json where that is missing. Without do_sample, tokens
  // are greedy: temperature 0, and only the repetition penalty is read.
  float temperature = 0;
  std::optional<uint32_t> top_k;
  std::optional<float> top_p, min_p, repetition_penalty;
  std::string settings_path;        // the file that has these values
  std::vector<std::string> unread;  // keys of that file that change the tokens of transformers only
  bool operator==(const GenerationDefaults&) const = default;
};

// Reads generation_config.json and the tokenizer's end token if the directory has them. `config` is
// config.json. Errors, at their places: files that are not JSON, values that are not ids, sampling out of the
// bounds of docs/sampling.md.
Result<GenerationDefaults> read_generation(const std::string& directory, const Document& config);

}  // namespace mkc
