#include "tools/chat_prompt.h"

#include "runtime/text/chat_template.h"

namespace mkc {

mkrt::Result<RenderChat> read_render_chat(const std::string& directory) {
  mkrt::Result<std::optional<mkrt::ChatTemplate>> found = mkrt::read_chat_template(directory);
  if (!found.ok()) return found.error();
  if (!found.value()) return RenderChat();
  mkrt::Result<nlohmann::ordered_json> tokens = mkrt::read_template_variables(directory);
  if (!tokens.ok()) return tokens.error();
  return RenderChat([chat_template = *std::move(found.value()), special_tokens = std::move(tokens.value())](
                        const nlohmann::ordered_json& messages, const nlohmann::ordered_json& variables) {
    nlohmann::ordered_json all = special_tokens;
    all.update(variables);
    return chat_template.render(messages, all);
  });
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
