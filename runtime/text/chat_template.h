// A chat template makes the text that a model continues from a conversation.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace mkrt {

namespace jinja {
struct Template;
}

// ChatTemplate is a Jinja template with the environment of transformers. It is immutable, so that threads may
// share it.
class ChatTemplate {
 public:
  // Errors: `FILE:LINE: error: …` for a syntax error, an unsupported construct, or a template of more than 1
  // MiB.
  static Result<ChatTemplate> parse(std::string_view source, const std::string& file);

  // Returns the text of a conversation. `messages` is the array that clients send. `variables` is an object
  // of further ones, such as tools, add_generation_prompt and bos_token.
  //
  // As in transformers, tools and documents that are not given are none, and add_generation_prompt is false.
  // The fields reasoning_content, thinking and reasoning of a message stand for each other. The result is the
  // same on every run unless the template asks for the date.
  //
  // Errors: `FILE:LINE: error: …` for what the template refuses by raise_exception, with its message; an
  // operation that fails; more steps, memory, output or levels than jinja/limits.h allows. `messages[I]: …`
  // or `NAME: …` for a message or variable that no template can hold, such as text that is not UTF-8.
  Result<std::string> render(const nlohmann::ordered_json& messages,
                             const nlohmann::ordered_json& variables) const;

  // Makes `other` the template of conversations with tools. Checkpoints name it tool_use.
  void set_tool_template(const ChatTemplate& other);

 private:
  std::string file_, tool_file_;
  std::shared_ptr<const jinja::Template> tree_, tool_tree_;
};

// Reads the template of a checkpoint's directory: that of chat_template.jinja, if there is one. The key
// chat_template in tokenizer_config.json or in chat_template.json has it otherwise. The key holds text, or
// templates with the names default and tool_use: a list of {name, template}, or an object {name: template}.
// Returns nothing where no file has a template.
//
// Errors: a file cannot be read, is not JSON, or has a key of another kind; no template named default;
// those of parse(), with FILE:chat_template in the place of FILE for templates inside JSON.
Result<std::optional<ChatTemplate>> read_chat_template(const std::string& directory);

// Returns the special tokens of tokenizer_config.json by their names, such as bos_token and image_token, as
// variables of a template. The names are those that transformers gives to a template. Tokens of
// special_tokens_map.json take their place where tokenizer_config.json has no added_tokens_decoder. A
// tokenizer class has tokens that neither file names (default_tokens.h). Errors: as read_chat_template().
Result<nlohmann::ordered_json> read_template_variables(const std::string& directory);

}  // namespace mkrt
