// An answer of the model is streamed.
#pragma once

#include <functional>
#include <string>

#include "runtime/engine/engine.h"
#include "runtime/text/tokenizer.h"
#include "tools/answer_end.h"
#include "tools/token_rate.h"

namespace mkc {

struct Answer {
  std::string text;
  AnswerEnd end = AnswerEnd::kEndToken;
  uint32_t cached_tokens = 0;  // of the prompt, from the prefix cache
  TokenRate rate;
};

// AnswerWatch is asked and told while an answer is made.
struct AnswerWatch {
  std::function<bool(const std::string& text)> put;  // takes text that has come; false ends the answer
  std::function<bool()> interrupted;                 // asked before each launch; true ends the answer
  std::function<void(uint64_t fed, uint64_t prompt)> feeding;  // rows of the prompt fed so far
};

// Runs a request on an idle engine. The text has whole characters only, and has no end token. `limit_end` is
// the reason of a request that reached max_new_tokens. Errors: those of the request and of the engine.
mkrt::Result<Answer> run_answer(mkrt::Engine& engine, mkrt::Request request, AnswerEnd limit_end,
                                const mkrt::Tokenizer& tokenizer, const AnswerWatch& watch);

}  // namespace mkc
