// Chat templates are parsed, and rendered if they are accepted.
#include <nlohmann/json.hpp>

#include "frontend/generation.h"
#include "frontend/json.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/utf8.h"
#include "tests/attack/fuzz/parsers.h"
#include "tools/chat_prompt.h"

namespace mkc::attack {
namespace {

constexpr const char* kMessages = R"([{"role": "system", "content": "Be brief"},
  {"role": "user", "content": "Grüße"},
  {"role": "assistant", "content": null, "tool_calls": [{"id": "call00001", "type": "function",
    "function": {"name": "f", "arguments": {"x": 1.5, "y": [true, "z"]}}}]},
  {"role": "tool", "content": "3", "tool_call_id": "call00001"},
  {"role": "assistant", "content": "<think>\na</think>b"}, {"role": "user", "content": [{"type": "text", "text": "c"}]}])";

constexpr const char* kVariables = R"({"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true,
  "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object",
    "properties": {"x": {"type": "number"}}, "required": ["x"]}}}]})";

}  // namespace

void run_chat_template(std::string_view input) {
  const mkrt::Result<mkrt::ChatTemplate> parsed = mkrt::ChatTemplate::parse(input, "t.jinja");
  if (!parsed.ok()) {
    promise(parsed.error().message.starts_with("t.jinja:"), "an error of a template names its file and line");
    return;
  }
  static const auto messages = nlohmann::ordered_json::parse(kMessages),
                    variables = nlohmann::ordered_json::parse(kVariables);
  const mkrt::Result<std::string> text = parsed.value().render(messages, variables);
  if (text.ok()) promise(!mkrt::find_invalid_utf8(text.value()), "a rendered text is UTF-8");
  if (!text.ok())
    promise(text.error().message.starts_with("t.jinja:"), "an error of a template names its file and line");
}

void run_tokenizer_config(std::string_view input) {
  static const auto kGiven = nlohmann::ordered_json::parse(kMessages);
  static const Result<Document> kConfig = parse_json({"config.json", "{}"});
  put_file("chat/tokenizer_config.json", input);
  (void)read_generation(folder() + "/chat", kConfig.value());
  const mkrt::Result<RenderChat> render = read_render_chat(folder() + "/chat");
  if (!render.ok() || !render.value()) return;
  const mkrt::Result<std::string> text = render.value()(kGiven, {{"add_generation_prompt", true}});
  if (text.ok()) promise(!mkrt::find_invalid_utf8(text.value()), "a rendered text is UTF-8");
}

std::vector<std::string> tokenizer_config_seeds() {
  return {
      R"({"added_tokens_decoder": {"0": {"content": "<s>", "special": true}, "2": {"content": "</s>"}},)"
      R"( "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null,)"
      R"( "chat_template": "{{ bos_token }}{% for m in messages %}{{ m['role'] }}: {{ m.content }}{% endfor %}"})",
      R"({"eos_token": "</s>", "chat_template": [{"name": "default", "template": "{{ messages[0]['content'] }}"},)"
      R"( {"name": "tool_use", "template": "{{ tools | tojson }}"}], "additional_special_tokens": ["a"]})"};
}

std::vector<std::string> chat_template_seeds() {
  std::vector<std::string> seeds = files_of("tests/oracle/chat_template/templates", ".jinja");
  for (const std::string& text : files_of("tests/oracle/chat_template", "snippets.json"))
    for (const nlohmann::json& snippet : nlohmann::json::parse(text))
      seeds.push_back(snippet.get<std::string>());
  for (const std::string& text : files_of("tests/oracle/chat_template", "expressions.vectors.json"))
    for (const nlohmann::json& row : nlohmann::json::parse(text))
      seeds.push_back(row["template"].get<std::string>());
  return seeds;
}

}  // namespace mkc::attack
