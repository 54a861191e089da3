// Files of requests, one JSON object a line, and the objects that answer them. docs/engine.md has the format.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/text/tokenizer.h"

namespace mkc {

// What a request is where its line does not say.
struct BatchDefaults {
  uint32_t max_new_tokens = 64;
  mkrt::MkSampling sampling;
};

// One request, named FILE:LINE.
struct BatchLine {
  mkrt::Request request;
  std::optional<std::string> prompt;  // text, where the request has no ids yet
};

// One entry for every line that is not blank. Errors of a line, as `FILE:LINE: error: KEY: …` with what was
// found and expected: text that is no JSON object, an unknown key or one given twice, a value of another kind
// or range, both or neither of prompt and prompt_ids.
std::vector<mkrt::Result<BatchLine>> parse_batch_file(std::string_view text, const std::string& file,
                                                      const BatchDefaults& defaults);

// The lines of a file. Errors: those of map_file; a file without a request.
mkrt::Result<std::vector<mkrt::Result<BatchLine>>> read_batch_file(const std::string& path,
                                                                   const BatchDefaults& defaults);

struct BatchOptions {
  const mkrt::Tokenizer* tokenizer = nullptr;  // null: prompts are ids, and answers have no text
  bool add_special = true;                     // around prompts
};

struct BatchAnswers {
  std::vector<std::string> objects;  // JSON, in the order of the lines
  mkrt::Status fault;                // of the device: the requests that it ended say so, too
};

// Runs all requests until none is left. An answer has new_ids, text (null without a tokenizer),
// finish_reason, logprobs where its line asks for them, and error where finish_reason is "error". A bad line
// does not touch the others.
BatchAnswers answer_batch(const std::vector<mkrt::Result<BatchLine>>& lines, mkrt::Engine& engine,
                          const BatchOptions& options);

}  // namespace mkc
