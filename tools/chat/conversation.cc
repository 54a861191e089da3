#include "tools/chat/conversation.h"

#include <fmt/format.h>

#include "runtime/text/utf8.h"

namespace mkc {

// Returns the messages of a chat whose history begins at the exchange `first`.
nlohmann::ordered_json Conversation::messages_with(const std::string& message, size_t first) const {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  const auto add = [&](const char* role, const std::string& content) {
    messages.push_back({{"role", role}, {"content", content}});
  };
  if (!system_.empty()) add("system", system_);
  for (size_t i = first; i < exchanges_.size(); ++i) {
    add("user", exchanges_[i].message);
    add("assistant", exchanges_[i].answer);
  }
  add("user", message);
  return messages;
}

mkrt::Result<Conversation::Prompt> Conversation::ask(const std::string& message, const PromptLimits& limits) {
  if (const std::optional<std::string> fault = mkrt::utf8_fault(message))
    return mkrt::Error{"message: error: " + *fault};
  Prompt prompt;
  for (size_t first = 0; first <= exchanges_.size(); ++first) {
    mkrt::Result<std::vector<int32_t>> ids = chat_ids(render_, tokenizer_, messages_with(message, first));
    if (!ids.ok()) return mkrt::Error{"message: error: " + ids.error().message};
    prompt = {std::move(ids.value()), static_cast<uint32_t>(first)};
    // The last new token is never fed.
    if (prompt.ids.size() + limits.room - 1 <= limits.positions) break;
  }
  if (prompt.ids.empty()) return mkrt::Error{"message: error: the chat template makes no tokens of it"};
  if (prompt.ids.size() > limits.positions)
    return mkrt::Error{
        fmt::format("message: error: found {} tokens with the chat template, the context has {}",
                    prompt.ids.size(), limits.positions)};
  exchanges_.erase(exchanges_.begin(), exchanges_.begin() + prompt.forgotten);
  return prompt;
}

void Conversation::keep(std::string message, std::string answer) {
  exchanges_.push_back({std::move(message), std::move(answer)});
}

}  // namespace mkc
