// A chat has a history, which makes a prompt of the next message.
#pragma once

#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tools/chat_prompt.h"

namespace mkc {

// PromptLimits say how much of a context a prompt may take, in tokens.
struct PromptLimits {
  uint32_t positions = 0;  // of the context
  uint32_t room = 1;       // new tokens that the history leaves room for, at least 1
};

class Conversation {
 public:
  // The tokenizer must outlive the conversation. An empty `system` is no message.
  Conversation(const mkrt::Tokenizer& tokenizer, RenderChat render, std::string system)
      : tokenizer_(tokenizer), render_(std::move(render)), system_(std::move(system)) {}

  struct Prompt {
    std::vector<int32_t> ids;
    uint32_t forgotten = 0;  // oldest exchanges that had to leave the history
  };

  // Returns the prompt for an answer to `message`. The oldest exchanges leave the history until the prompt
  // and `room` new tokens fit. The system message stays. A message without history may leave less room, but
  // one position.
  //
  // Errors: those of the template and of the tokenizer; a message that does not fit alone. Nothing has
  // changed after an error.
  mkrt::Result<Prompt> ask(const std::string& message, const PromptLimits& limits);

  // Keeps a message and its answer as the newest exchange.
  void keep(std::string message, std::string answer);

  // Forgets all exchanges.
  void reset() { exchanges_.clear(); }

  size_t exchanges() const { return exchanges_.size(); }

 private:
  struct Exchange {
    std::string message, answer;
  };
  nlohmann::ordered_json messages_with(const std::string& message, size_t first) const;

  const mkrt::Tokenizer& tokenizer_;
  RenderChat render_;
  std::string system_;
  std::deque<Exchange> exchanges_;
};

}  // namespace mkc
