#include "tools/chat_prompt.h"

#include "runtime/base/json_text.h"
#include "runtime/text/chat_template.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

// Returns the arguments of a call of a tool, or nothing where the call has another form.
ordered_json* arguments_of(ordered_json& call) {
  if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) return nullptr;
  const auto found = call["function"].find("arguments");
  return found == call["function"].end() ? nullptr : &*found;
}

// Returns the messages with the arguments of calls of tools as objects, where they are text that holds one.
// Errors: an object with an integer that no template can hold.
mkrt::Result<ordered_json> with_objects(ordered_json messages) {
  for (ordered_json& message : messages) {
    if (!message.is_object() || !message.contains("tool_calls")) continue;
    for (ordered_json& call : message["tool_calls"]) {
      ordered_json* arguments = arguments_of(call);
      if (!arguments || !arguments->is_string()) continue;
      const auto text = arguments->get<std::string>();
      mkrt::Result<ordered_json> parsed = mkrt::parse_ordered_json_text(text, "arguments");
      if (!parsed.ok() || !parsed.value().is_object()) continue;
      if (const std::string fault = mkrt::wide_integer_fault(text); !fault.empty())
        return mkrt::Error{"the arguments of a call of a tool: " + fault};
      *arguments = std::move(parsed.value());
    }
  }
  return messages;
}

}  // namespace

mkrt::Result<RenderChat> read_render_chat(const std::string& directory) {
  mkrt::Result<std::optional<mkrt::ChatTemplate>> found = mkrt::read_chat_template(directory);
  if (!found.ok()) return found.error();
  if (!found.value()) return RenderChat();
  mkrt::Result<nlohmann::ordered_json> tokens = mkrt::read_template_variables(directory);
  if (!tokens.ok()) return tokens.error();
  return RenderChat([chat_template = *std::move(found.value()), special_tokens = std::move(tokens.value())](
                        const nlohmann::ordered_json& messages,
                        const nlohmann::ordered_json& variables) -> mkrt::Result<std::string> {
    ordered_json all = special_tokens;
    all.update(variables);
    // Clients send arguments of calls as text. Most templates want an object, and some can only join text.
    const mkrt::Result<ordered_json> as_objects = with_objects(messages);
    if (!as_objects.ok()) return as_objects.error();
    mkrt::Result<std::string> text = chat_template.render(as_objects.value(), all);
    if (text.ok() || as_objects.value() == messages) return text;
    mkrt::Result<std::string> of_text = chat_template.render(messages, all);
    return of_text.ok() ? of_text : text;
  });
}

std::string refused_variable(const std::string& message, const nlohmann::ordered_json& variables) {
  for (const auto& [name, value] : variables.items())
    if (message.starts_with(name + ": ")) return name;
  return message.starts_with("messages[") || message.starts_with("messages: ") ? "messages" : "";
}

mkrt::Result<std::vector<int32_t>> encode_chat(const mkrt::Tokenizer& tokenizer, const std::string& text) {
  return mkrt::encode(tokenizer, text, false);
}

mkrt::Result<std::vector<int32_t>> chat_ids(const RenderChat& render, const mkrt::Tokenizer& tokenizer,
                                            const nlohmann::ordered_json& messages) {
  const mkrt::Result<std::string> text = render(messages, {{"add_generation_prompt", true}});
  if (!text.ok()) return text.error();
  return encode_chat(tokenizer, text.value());
}

}  // namespace mkc
