// These tests check the parts of mkc chat: history, answers, and where models are looked for.
#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/unit/engine/fake_model.h"
#include "tests/unit/temp_dir.h"
#include "tools/chat/answer.h"
#include "tools/chat/conversation.h"
#include "tools/chat_prompt.h"
#include "tools/hub_cache.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

constexpr mkrt::BatchLimits kLimits = {
    .max_tokens = 8, .max_requests = 4, .context = 64, .vocab = 600, .page_size = 16, .pages = 4};

const mkrt::Tokenizer& tokenizer() {
  static const mkrt::Tokenizer loaded =
      mkrt::load_tokenizer(MKC_SOURCE_DIR "/models/tiny-stories/tokenizer.json").value();
  return loaded;
}

// Renders a message as the first letter of its role and its content. Content "no" is refused.
mkrt::Result<std::string> render(const ordered_json& messages, const ordered_json& variables) {
  std::string text;
  for (const ordered_json& message : messages) {
    if (message["content"] == "no") return mkrt::Error{"t.jinja:1: error: refused"};
    text += message["role"].get<std::string>().substr(0, 1) + message["content"].get<std::string>() + ";";
  }
  CHECK(variables["add_generation_prompt"] == true);
  return text;
}

std::vector<int32_t> ids_of(const std::string& text) {
  return mkrt::encode(tokenizer(), text, false).value();
}

TEST_CASE("arguments of calls that are text become objects, unless the template wants text") {
  const auto rendered = [](const std::string& source, const std::string& arguments) {
    const mkrt::test::TempDir dir;
    dir.write("chat_template.jinja", source);
    const ordered_json calls =
        ordered_json::array({{{"function", {{"name", "f"}, {"arguments", arguments}}}}});
    const ordered_json messages = ordered_json::array({{{"role", "assistant"}, {"tool_calls", calls}}});
    const mkrt::Result<std::string> text =
        read_render_chat(dir.path).value()(messages, ordered_json::object());
    return text.ok() ? text.value() : text.error().message;
  };
  const std::string value = "{{ messages[0].tool_calls[0].function.arguments", json = R"({"b":1,"a":"é"})";
  CHECK(rendered(value + " | tojson }}", json) == R"({"b": 1, "a": "é"})");
  CHECK(rendered(value + ".items() | list }}", json) == "[('b', 1), ('a', 'é')]");
  CHECK(rendered("{{ '<' + messages[0].tool_calls[0].function.arguments }}", json) == "<" + json);
  for (const std::string other : {"x", "{", "[1]", "", R"({"a": 1, "a": 2})"})
    CHECK(rendered(value + " | tojson }}", other) == ordered_json(other).dump());
  CHECK(rendered(value + " | tojson }}", R"({"a": 1e30, "b": -9223372036854775808})") ==
        R"({"a": 1e+30, "b": -9223372036854775808})");
  const std::string digits = "1" + std::string(99, '0');
  CHECK(rendered(value + " | tojson }}", "{\"a\": [" + digits + "]}") ==
        "the arguments of a call of a tool: found the integer " + digits.substr(0, 40) +
            "…, expected at most 64 bits");
  const std::string deep = "{\"a\": " + std::string(1 << 20, '[') + std::string(1 << 20, ']') + "}";
  CHECK(rendered(value + " | length }}", deep) == std::to_string(deep.size()));
  CHECK(rendered("{{ raise_exception('no') }}", json).find("refuses the conversation: no") !=
        std::string::npos);
}

TEST_CASE("a prompt has the system message, the history and the new message") {
  Conversation chat(tokenizer(), render, "be kind");
  CHECK(chat.ask("one", {1000, 1}).value().ids == ids_of("sbe kind;uone;"));
  chat.keep("one", "two");
  chat.keep("three", "four");
  CHECK(chat.ask("five", {1000, 1}).value().ids == ids_of("sbe kind;uone;atwo;uthree;afour;ufive;"));
  chat.reset();
  CHECK(chat.ask("six", {1000, 1}).value().ids == ids_of("sbe kind;usix;"));
  CHECK(Conversation(tokenizer(), render, "").ask("one", {1000, 1}).value().ids == ids_of("uone;"));
}

TEST_CASE("the oldest exchanges leave a history that does not fit, and the system message stays") {
  Conversation chat(tokenizer(), render, "s");
  for (const char* text : {"one", "two", "three"}) chat.keep(text, "yes");
  const std::vector<int32_t> whole = ids_of("ss;uone;ayes;utwo;ayes;uthree;ayes;ufour;");
  const std::vector<int32_t> shorter = ids_of("ss;utwo;ayes;uthree;ayes;ufour;");
  // The last new token needs no position.
  const auto positions = static_cast<uint32_t>(whole.size()) + 4;
  Conversation::Prompt prompt = chat.ask("four", {positions, 5}).value();
  CHECK(prompt.ids == whole);
  CHECK(prompt.forgotten == 0);
  prompt = chat.ask("four", {positions, 6}).value();
  CHECK(prompt.ids == shorter);
  CHECK(prompt.forgotten == 1);
  CHECK(chat.exchanges() == 2);
  // A message without history may leave less room.
  const std::vector<int32_t> alone = ids_of("ss;ufour;");
  prompt = chat.ask("four", {static_cast<uint32_t>(alone.size()), 9}).value();
  CHECK(prompt.ids == alone);
  CHECK(prompt.forgotten == 2);
  CHECK(chat.exchanges() == 0);
}

TEST_CASE("a message that is refused leaves the history as it was") {
  Conversation chat(tokenizer(), render, "");
  chat.keep("one", "two");
  const size_t tokens = ids_of("uthree four five;").size();
  CHECK(chat.ask("three four five", {static_cast<uint32_t>(tokens) - 1, 1}).error().message ==
        "message: error: found " + std::to_string(tokens) +
            " tokens with the chat template, the context has " + std::to_string(tokens - 1));
  CHECK(chat.ask("no", {1000, 1}).error().message == "message: error: t.jinja:1: error: refused");
  CHECK(chat.ask("a\xff", {1000, 1}).error().message ==
        "message: error: the text is not valid UTF-8: byte 0xff at offset 1");
  CHECK(chat.exchanges() == 1);
}

mkrt::Request request_of(std::vector<int32_t> prompt, uint32_t max_new_tokens) {
  mkrt::Request request;
  request.name = "message";
  request.prompt = std::move(prompt);
  request.max_new_tokens = max_new_tokens;
  return request;
}

struct Heard {
  std::string text;
  size_t pieces = 0;
  std::vector<std::pair<uint64_t, uint64_t>> fed;
};

mkrt::Result<Answer> answer_of(mkrt::Request request, Heard& heard, size_t interrupt_after = SIZE_MAX) {
  mkrt::FakeModel model(kLimits);
  mkrt::Engine engine = mkrt::Engine::open(model).value();
  const AnswerWatch watch{.put =
                              [&](const std::string& text) {
                                heard.text += text;
                                return ++heard.pieces > 0;
                              },
                          .interrupted = [&] { return model.steps.size() >= interrupt_after; },
                          .feeding = [&](uint64_t fed, uint64_t all) { heard.fed.emplace_back(fed, all); }};
  return run_answer(engine, std::move(request), AnswerEnd::kContextFull, tokenizer(), watch);
}

TEST_CASE("an answer comes in pieces that make up its text, and says why it ended") {
  const mkrt::Request request = request_of({5, 6, 7}, 20);
  const std::vector<int32_t> ids = mkrt::fake_generate({5, 6, 7}, 20, {}, kLimits.vocab);
  Heard heard;
  const Answer answer = answer_of(request, heard).value();
  CHECK(answer.text == mkrt::decode(tokenizer(), ids, true).value());
  CHECK(heard.text == answer.text);
  CHECK(heard.pieces > 5);
  CHECK(answer.end == AnswerEnd::kContextFull);
  CHECK(answer.rate.tokens() == 20);

  mkrt::Request stopped = request;
  stopped.stop_ids = {ids[4]};
  heard = {};
  const Answer end = answer_of(stopped, heard).value();
  const auto first = std::ranges::find(ids, ids[4]) - ids.begin();
  CHECK(end.end == AnswerEnd::kEndToken);
  CHECK(end.text ==
        mkrt::decode(tokenizer(), std::span(ids).first(static_cast<size_t>(first)), true).value());
}

TEST_CASE("an interrupted answer keeps the text so far") {
  Heard heard;
  const Answer answer = answer_of(request_of({5, 6, 7}, 20), heard, 6).value();
  CHECK(answer.end == AnswerEnd::kInterrupted);
  CHECK(answer.rate.tokens() == 6);
  const std::vector<int32_t> ids = mkrt::fake_generate({5, 6, 7}, 6, {}, kLimits.vocab);
  CHECK(answer.text == mkrt::decode(tokenizer(), ids, true).value());
  // An answer that is stopped while its prompt is fed has no text.
  heard = {};
  const Answer none = answer_of(request_of(std::vector<int32_t>(40, 3), 20), heard, 2).value();
  CHECK(none.text.empty());
  CHECK(none.end == AnswerEnd::kInterrupted);
  CHECK(heard.fed == std::vector<std::pair<uint64_t, uint64_t>>{{0, 40}, {8, 40}, {16, 40}});
}

TEST_CASE("a request that cannot run is an error") {
  Heard heard;
  const mkrt::Result<Answer> answer = answer_of(request_of({600}, 2), heard);
  REQUIRE(!answer.ok());
  CHECK(answer.error().message == "message: error: prompt: token 0 has the id 600, expected 0 to 599");
}

TEST_CASE("new tokens are cut to what the context leaves") {
  CHECK(limit_new_tokens(64, 10, 73).tokens == 64);
  CHECK(limit_new_tokens(64, 10, 73).end == AnswerEnd::kLength);
  CHECK(limit_new_tokens(64, 10, 72).tokens == 63);
  CHECK(limit_new_tokens(64, 10, 72).end == AnswerEnd::kContextFull);
  CHECK(limit_new_tokens(64, 72, 72).tokens == 1);
}

TEST_CASE("the hub's cache is found by the variables of huggingface_hub, and models by their names") {
  const char* kNames[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"};
  const char* kFolders[] = {"/a", "/b", "/c/hub", "/d/huggingface/hub", "/e/.cache/huggingface/hub"};
  for (size_t i = 0; i < 5; ++i)
    setenv(kNames[i], std::string("/").append(1, static_cast<char>('a' + i)).c_str(), 1);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(hub_cache() == kFolders[i]);
    unsetenv(kNames[i]);
  }
  CHECK(hub_folder("Qwen/Qwen3-0.6B") == "models--Qwen--Qwen3-0.6B");
  CHECK(hub_folder("gpt2") == "models--gpt2");
  for (const char* other : {"", "/", "a/", "/a", "./a", "../a", "a/b/c", "a/../b", "a b/c", "~/a"})
    CHECK(hub_folder(other) == "");
}

}  // namespace
}  // namespace mkc
