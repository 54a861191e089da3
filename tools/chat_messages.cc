#include "tools/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mkc {
namespace {

using mkrt::JsonNode;

constexpr size_t kMaxMessages = 1 << 16;

// Keys that templates read. Keys beside them are dropped if their value is empty, as in a message that a
// client has got and sends back.
constexpr std::string_view kKeys[] = {"role",         "content",   "name",     "tool_calls",
                                      "tool_call_id", "reasoning", "thinking", "reasoning_content"};

bool is_known(std::string_view key) {
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

template <class Json>
bool is_empty_value(const Json& value) {
  return value.is_null() || (value.is_structured() && value.empty());
}

void check_content(const JsonNode& content) {
  if (content.is_null() || content.raw().is_string()) return;
  if (!content.raw().is_array()) return content.fail_expected("a string, null, or an array of text parts");
  for (const JsonNode& part : content.items()) {
    (void)part.at("type").one_of({"text"});
    part.allow_keys({"type", "text"});
    (void)part.at("text").string();
  }
}

}  // namespace

void check_messages(const JsonNode& node) {
  if (!node.raw().is_array() || node.raw().empty() || node.raw().size() > kMaxMessages)
    return node.fail_expected(fmt::format("an array of 1 to {} messages", kMaxMessages));
  for (const JsonNode& message : node.items()) {
    for (const auto& [key, value] : message.members())
      if (!is_known(key) && !is_empty_value(value.raw()))
        value.fail_expected("no value: templates read no such key");
    (void)message.at("role").one_of({"system", "developer", "user", "assistant", "tool"});
    check_content(message.optional("content"));
    if (node.failed()) return;
  }
}

void check_template_variables(const JsonNode& node) {
  for (const auto& [name, value] : node.members()) {
    if (name == "reasoning_effort" && !value.is_null()) (void)value.string();
    // A template takes any text as true, also "false".
    if (name == "enable_thinking" && !value.is_null()) (void)value.boolean();
    if (name == "messages" || name == "add_generation_prompt" || name == "chat_template")
      value.fail_expected("another name: this one is set by its own field");
  }
}

std::string read_reasoning_effort(const JsonNode& node) {
  return node.one_of({"none", "minimal", "low", "medium", "high", "xhigh"});
}

nlohmann::ordered_json plain_messages(nlohmann::ordered_json messages) {
  for (nlohmann::ordered_json& message : messages) {
    nlohmann::ordered_json kept = nlohmann::ordered_json::object();
    // Templates ask whether a key is there. Clients send null, or an empty list, where a message has none.
    for (auto& [key, value] : message.items())
      if (is_known(key) && !value.is_null() && (key != "tool_calls" || !is_empty_value(value)))
        kept[key] = std::move(value);
    message = std::move(kept);
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    std::string text;
    for (size_t i = 0; i < content->size(); ++i)
      text += (i > 0 ? "\n" : "") + (*content)[i]["text"].get<std::string>();
    *content = text;
  }
  return messages;
}

}  // namespace mkc
