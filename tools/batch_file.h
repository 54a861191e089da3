// Batch files, with a request as a JSON object on each line, and the objects that answer them. docs/engine.md
// has the format.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/text/tokenizer.h"

namespace mkc {

// BatchDefaults are the settings of a request whose line has none.
struct BatchDefaults {
  uint32_t max_new_tokens = 64;
  mkrt::MkSampling sampling;
};

// BatchLine is one request, named FILE:LINE.
struct BatchLine {
  mkrt::Request request;
  std::optional<std::string> prompt;  // text, if the request has no ids yet
};

// Returns one entry for every line that is not blank. An error reads `FILE:LINE: error: KEY: …` and has the
// value found and the values expected. Errors of a line: no JSON object; an unknown or repeated key; a value
// of another kind or range. Lines with both or neither of prompt and prompt_ids are errors, too.
std::vector<mkrt::Result<BatchLine>> parse_batch_file(std::string_view text, const std::string& file,
                                                      const BatchDefaults& defaults);

// Returns the lines of a file. Errors: those of map_file; a file without a request.
mkrt::Result<std::vector<mkrt::Result<BatchLine>>> read_batch_file(const std::string& path,
                                                                   const BatchDefaults& defaults);

struct BatchOptions {
  const mkrt::Tokenizer* tokenizer = nullptr;  // null: prompts are ids, and answers have no text
  bool add_special = true;                     // adds special tokens around prompts
};

struct BatchAnswers {
  std::vector<std::string> objects;  // JSON, in the order of the lines
  mkrt::Status fault;                // fault of the device; answers of the requests it ended have it, too
};

// Runs all requests until none is left. An answer has new_ids, text (null without a tokenizer), finish_reason
// and cached_tokens. An answer has logprobs if its line asks for them, and error if finish_reason is "error".
// A bad line does not affect the others.
BatchAnswers answer_batch(const std::vector<mkrt::Result<BatchLine>>& lines, mkrt::Engine& engine,
                          const BatchOptions& options);

}  // namespace mkc
