// These tests render chats that the model goes on with, by templates that change the last message.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "runtime/text/chat_template.h"
#include "tools/serve/prepare.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

// Returns the prompt of a chat whose last message has this content, or the error.
std::string continued(const std::string& source, const ordered_json& content) {
  const mkrt::ChatTemplate chat_template = mkrt::ChatTemplate::parse(source, "t").value();
  ServedModel model;
  model.tokenizer = mkrt::load_tokenizer(MKC_SOURCE_DIR "/models/tiny-stories/tokenizer.json").value();
  model.limits.vocab = 1 << 20;
  model.render_chat = [&](const ordered_json& messages, const ordered_json& variables) {
    return chat_template.render(messages, variables);
  };
  ApiRequest request;
  ChatFields& chat = request.chat.emplace();
  chat.messages = ordered_json::array({{{"role", "assistant"}, {"content", content}}});
  chat.add_generation_prompt = false;
  chat.continue_final_message = true;
  std::vector<int32_t> ids;
  if (const std::optional<ApiError> error = prompt_ids(model, request, 0, ids)) return error->message;
  return mkrt::decode(model.tokenizer, ids, false).value();
}

const std::string kPlain = "<{{ messages[0].content }}>";
const std::string kTrims = "< {{ messages[0].content | trim }}>";
const std::string kError =
    "continue_final_message: the chat that the template renders does not hold the text of the last message, "
    "expected a template that repeats it whole";

TEST_CASE("a continued chat ends behind its last message, also where the template trims it") {
  CHECK(continued(kPlain, " a b \n") == "< a b \n");
  CHECK(continued(kTrims, " a b") == "< a b");
  CHECK(continued(kTrims, " a b \n\u00a0") == "< a b");
  CHECK(continued(kTrims, " ") == "<");
  CHECK(continued(kTrims, "") == "<");
}

TEST_CASE("of a last message in parts the last text is continued") {
  const ordered_json parts = {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b "}}};
  const std::string source = "{% for p in messages[0].content %}<{{ p.text }}>{% endfor %}";
  CHECK(continued(source, parts) == "<a><b ");
  const std::string none = "continue_final_message: found a last message without content, expected text";
  CHECK(continued(source, ordered_json::array()) == none);
  CHECK(continued(kPlain, nullptr) == none);
}

// transformers 5.23 refuses the same chats.
TEST_CASE("a template that leaves out a part of the last message is an error") {
  CHECK(continued("{{ messages[0].content.split('</think>')[-1] }}", "a</think>b") == kError);
  CHECK(continued("{{ messages[0].content[:3] }}", "a long message") == kError);
  CHECK(continued("{{ messages[0].content | upper }}", "a") == kError);
  CHECK(continued("{{ messages[0].content | replace('b', 'c') }}", "a b") == kError);
  CHECK(continued("nothing", "a") == kError);
}

}  // namespace
}  // namespace mkc
