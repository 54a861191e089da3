#include "tools/chat/answer.h"

#include <algorithm>

#include "tools/token_text.h"

namespace mkc {
namespace {

AnswerEnd end_of(const mkrt::Outcome& outcome, AnswerEnd limit_end) {
  if (outcome.reason == mkrt::FinishReason::kStop) return AnswerEnd::kEndToken;
  return outcome.reason == mkrt::FinishReason::kLength ? limit_end : AnswerEnd::kInterrupted;
}

}  // namespace

mkrt::Result<Answer> run_answer(mkrt::Engine& engine, mkrt::Request request, AnswerEnd limit_end,
                                const mkrt::Tokenizer& tokenizer, const AnswerWatch& watch) {
  Answer answer;
  TokenText tokens(tokenizer);
  const auto put = [&](const std::string& text) {
    answer.text += text;
    return text.empty() || watch.put(text);
  };
  // The request's own stop ids are the engine's, so that the last token can be told from text.
  const std::vector<int32_t> stop_ids = request.stop_ids;
  const uint64_t prompt = request.prompt.size(), rows_before = engine.stats().rows;
  request.stream = true;
  const uint64_t id = engine.submit(std::move(request));
  while (!engine.idle()) {
    if (watch.interrupted()) engine.cancel(id);
    if (answer.rate.tokens() == 0) watch.feeding(engine.stats().rows - rows_before, prompt);
    if (mkrt::Status status = engine.step(); !status.ok()) return status.error();
    for (const mkrt::Progress& progress : engine.take_progress()) {
      answer.rate.took(progress.ids.size());
      std::string text;
      for (const int32_t token : progress.ids)
        if (std::ranges::find(stop_ids, token) == stop_ids.end()) text += tokens.add(token);
      if (!put(text)) engine.cancel(id);
    }
  }
  for (const mkrt::Outcome& outcome : engine.take_outcomes()) {
    if (outcome.reason == mkrt::FinishReason::kError) return mkrt::Error{outcome.error};
    answer.end = end_of(outcome, limit_end);
    answer.cached_tokens = outcome.cached_tokens;
  }
  (void)put(tokens.finish());
  return answer;
}

}  // namespace mkc
