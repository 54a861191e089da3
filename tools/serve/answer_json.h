// Answers are JSON: whole ones, chunks of streams, log-probabilities.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "runtime/session/sample.h"
#include "runtime/text/tokenizer.h"
#include "tools/token_text.h"

namespace mkc {

using Json = nlohmann::ordered_json;

// AnswerHead is what an answer and all chunks of a stream have in common.
struct AnswerHead {
  bool chat = false;
  std::string id = {};  // "chatcmpl-…" or "cmpl-…"
  int64_t created = 0;
  std::string model = {};
};

struct Usage {
  uint64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

// ChoicePart is a choice of an answer, or of one chunk.
struct ChoicePart {
  uint32_t index = 0;
  std::string text = {};
  Json logprobs = {};       // null: none
  Json finish_reason = {};  // null: the choice goes on
  Json stop_reason = {};    // the stop string or stop token id that ended it, or null
  bool first = false;       // of a stream's choice
};

// Returns a whole answer.
Json answer_json(const AnswerHead& head, std::span<const ChoicePart> choices, const Usage& usage);

// Returns a chunk with one choice. `with_usage` adds a null usage, as in every chunk of a stream whose last
// chunk has one.
Json chunk_json(const AnswerHead& head, const ChoicePart& choice, bool with_usage);

// Returns the chunk that has the usage and no choice.
Json usage_chunk_json(const AnswerHead& head, const Usage& usage);

// Returns {"content": [{"token", "logprob", "bytes", "top_logprobs"}, …]}.
Json chat_logprobs(const mkrt::Tokenizer& tokenizer, std::span<const mkrt::Sampled> samples);

// CompletionLogprobs makes {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of a completion's
// tokens. Offsets are in characters.
class CompletionLogprobs {
 public:
  // `text` has the tokens before, and takes the new ones. `offset` is that of the first new token: the count
  // of characters that were complete before it.
  CompletionLogprobs(const mkrt::Tokenizer& tokenizer, TokenText& text, size_t offset)
      : tokenizer_(&tokenizer), text_(&text), offset_(offset) {}

  // Adds the first token of an echoed prompt. No logits come before it, so that its values are null.
  void add_first(int32_t id) { add_token(id, {}, {}); }
  void add(const mkrt::Sampled& sampled);

  size_t offset() const { return offset_; }  // of the next token
  Json take();

 private:
  void add_token(int32_t id, Json logprob, Json top);

  const mkrt::Tokenizer* tokenizer_;
  TokenText* text_;
  size_t offset_;
  Json tokens_ = Json::array(), logprobs_ = Json::array(), tops_ = Json::array(), offsets_ = Json::array();
};

// Returns the JSON text. Bytes that are no UTF-8 are replaced.
std::string json_text(const Json& json);

// Returns an event of a stream (text/event-stream).
std::string sse_event(const std::string& data);

}  // namespace mkc
