// A batch file has a request as a JSON object on each line, and JSON objects answer them. docs/engine.md has
// the format.
#pragma once

#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"
#include "tools/chat_prompt.h"
#include "tools/line_reader.h"

namespace mkc {

// BatchDefaults are the settings of a request whose line has none.
struct BatchDefaults {
  uint32_t max_new_tokens = 64;
  mkrt::MkSampling sampling;
};

// BatchLine is one request, named FILE:LINE. A request has ids, or else a prompt or messages.
struct BatchLine {
  mkrt::Request request;
  std::optional<std::string> prompt;               // text
  std::optional<nlohmann::ordered_json> messages;  // of a chat, with content that is text or null
};

struct NumberedLine {
  size_t number = 0;  // in the file, from 1
  mkrt::Result<BatchLine> line;
};

// Returns one entry for every line that is not blank. An error reads `FILE:LINE: error: KEY: …` and has the
// value found and the values expected. Errors of a line: no JSON object; an unknown or repeated key; a value
// of another kind or range. Lines without exactly one of prompt, prompt_ids and messages are errors, too.
std::vector<NumberedLine> parse_batch_file(std::string_view text, const std::string& file,
                                           const BatchDefaults& defaults);

// BatchSource hands out the lines of a batch file. A regular file is read at once. Lines of a pipe, and of
// standard input for "-", are read as they come.
class BatchSource {
 public:
  // Errors: a file that cannot be read; a regular file without a request.
  static mkrt::Result<BatchSource> open(const std::string& path, const BatchDefaults& defaults);
  // Returns the lines of a text.
  static BatchSource of_text(std::string_view text, const std::string& file, const BatchDefaults& defaults);

  // Tells whether lines are read as they come, so that lines() does not have all of them.
  bool is_stream() const { return stream_.has_value(); }
  // Returns the lines that are known and not yet taken.
  const std::deque<NumberedLine>& lines() const { return lines_; }
  // Takes the next line. Waits for it if `wait` is set. Returns nothing where there is none yet, and at the
  // end. A line that is too long is a bad line. Errors: a read that fails; the end of a stream without a
  // request.
  mkrt::Result<std::optional<NumberedLine>> next(bool wait);
  bool at_end() const { return lines_.empty() && (!stream_ || stream_->at_end()); }
  size_t taken() const { return taken_; }

 private:
  std::string name_;
  BatchDefaults defaults_;
  std::deque<NumberedLine> lines_;
  std::optional<LineReader> stream_;
  size_t taken_ = 0;
};

struct BatchOptions {
  const mkrt::Tokenizer* tokenizer = nullptr;  // null: prompts are ids, and answers have no text
  bool add_special = true;                     // adds special tokens around prompts
  RenderChat render_chat = {};                 // null: there is no chat template for messages
};

// PutAnswer takes an answer, a JSON object. An error ends the batch.
using PutAnswer = std::function<mkrt::Status(const std::string& object)>;

// Runs requests until the source is at its end and none is left. Answers are put as they come about: of a bad
// line at once, and of a request when it finishes. An answer has line, new_ids, text (null without a
// tokenizer), finish_reason and cached_tokens. An answer has logprobs if its line asks for them, and error if
// finish_reason is "error". A bad line does not affect the others.
//
// Errors: a fault of the device, after the answers of the requests that it ended; those of the source, after
// the answers of all requests before; those of `put`.
mkrt::Status answer_batch(BatchSource& source, mkrt::Engine& engine, const BatchOptions& options,
                          const PutAnswer& put);

}  // namespace mkc
