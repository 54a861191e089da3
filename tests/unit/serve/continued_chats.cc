// These tests render chats that the model goes on with, by templates that change the last message.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "runtime/text/chat_template.h"
#include "tools/chat_messages.h"
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
  chat.messages = plain_messages(ordered_json::array({{{"role", "assistant"}, {"content", content}}}));
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

TEST_CASE("a last message in parts is continued behind the last, and one without content is an error") {
  const ordered_json parts = {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b "}}};
  CHECK(continued(kPlain, parts) == "<a\nb ");
  CHECK(continued(kPlain, nullptr) ==
        "continue_final_message: found a last message without content, expected text");
}

TEST_CASE("an error of a template's variable begins with its name, and others with the field messages") {
  const auto error_of = [](const char* source, const ordered_json& content, const ordered_json& variables) {
    const mkrt::ChatTemplate chat_template = mkrt::ChatTemplate::parse(source, "t").value();
    ServedModel model;
    model.render_chat = [&](const ordered_json& messages, const ordered_json& given) {
      return chat_template.render(messages, given);
    };
    ApiRequest request;
    ChatFields& chat = request.chat.emplace();
    chat.messages = ordered_json::array({{{"role", "user"}, {"content", content}}});
    chat.variables = variables;
    std::vector<int32_t> ids;
    const std::optional<ApiError> error = prompt_ids(model, request, 0, ids);
    REQUIRE(error);
    return error->param + " | " + error->message;
  };
  const ordered_json none = ordered_json::object();
  CHECK(error_of("", "a", {{"z", UINT64_MAX}}) ==
        "z | z: the integer 18446744073709551615 has more than 63 bits");
  CHECK(error_of("", UINT64_MAX, none) ==
        "messages | messages[0]: the integer 18446744073709551615 has more than 63 bits");
  CHECK(error_of("{{ 1 // 0 }}", "a", none) == "messages | messages: t:1: error: division by zero");
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
