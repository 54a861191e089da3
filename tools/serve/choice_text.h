// The text of one choice grows token by token.
#pragma once

#include <span>
#include <string>

#include "tools/serve/api_request.h"
#include "tools/serve/stop_matcher.h"
#include "tools/token_text.h"

namespace mkc {

class ChoiceText {
 public:
  // `tokens` has the tokens before the choice, and its tokenizer must outlive the ChoiceText.
  ChoiceText(TokenText tokens, const ApiRequest& api)
      : tokens_(std::move(tokens)),
        stop_(api.stop, api.include_stop_str_in_output),
        min_tokens_(api.bias.min_new_tokens) {}

  // Takes new tokens, and returns the text that is certain now: whole characters that no stop string can
  // reach back into. Tokens behind a stop string are dropped. No stop string ends within the text of the
  // first `min_tokens` tokens.
  std::string push(std::span<const int32_t> ids);
  // Takes a token that adds no text, such as one that ends it.
  void push_silent() { taken_ += matched() ? 0 : 1; }
  // Returns the text that was held back.
  std::string finish();

  // Returns the tokens so far, up to the one that completed a stop string.
  size_t taken() const { return taken_; }
  const std::string* matched() const { return stop_.matched(); }

 private:
  std::string push_text(const std::string& text);

  TokenText tokens_;
  StopMatcher stop_;
  size_t min_tokens_;
  size_t taken_ = 0;
};

}  // namespace mkc
