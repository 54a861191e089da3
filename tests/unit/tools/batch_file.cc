#include "tools/batch_file.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/unit/engine/fake_model.h"

namespace mkc {
namespace {

using nlohmann::json;

constexpr mkrt::BatchLimits kLimits = {
    .max_tokens = 8, .max_requests = 4, .context = 64, .vocab = 100, .page_size = 16, .pages = 8};

std::string error_of(const std::string& line) {
  const auto lines = parse_batch_file(line, "f.jsonl", {});
  REQUIRE(lines.size() == 1);
  return lines[0].line.ok() ? "" : lines[0].line.error().message;
}

// Returns a function that appends answers to `objects`.
PutAnswer put_to(std::vector<json>& objects) {
  return [&objects](const std::string& object) {
    objects.push_back(json::parse(object));
    return mkrt::Status();
  };
}

// Returns the answers in the order in which they came.
std::vector<json> answers_as_they_came(const std::string& text, const BatchOptions& options = {},
                                       const BatchDefaults& defaults = {}) {
  mkrt::FakeModel model(kLimits);
  mkrt::Engine engine = mkrt::Engine::open(model).value();
  BatchSource source = BatchSource::of_text(text, "f.jsonl", defaults);
  std::vector<json> objects;
  CHECK(answer_batch(source, engine, options, put_to(objects)).ok());
  return objects;
}

// Returns the answers in the order of their lines.
std::vector<json> answers_of(const std::string& text, const BatchOptions& options = {},
                             const BatchDefaults& defaults = {}) {
  std::vector<json> objects = answers_as_they_came(text, options, defaults);
  std::ranges::sort(objects, {}, [](const json& object) { return object["line"].get<int>(); });
  return objects;
}

json refused(int line, const std::string& error) {
  return {{"line", line},       {"new_ids", json::array()},
          {"text", nullptr},    {"finish_reason", "error"},
          {"cached_tokens", 0}, {"error", error}};
}

TEST_CASE("a line has a prompt as text or ids, and may say how long, when and how it is drawn") {
  const auto lines = parse_batch_file(
      "{\"prompt_ids\": [1, 2], \"max_new_tokens\": 3, \"arrive_at_step\": 4, \"temperature\": 0.5, "
      "\"top_k\": 6, \"top_p\": 0.75, \"min_p\": 0.125, \"repetition_penalty\": 2, "
      "\"seed\": 18446744073709551615, \"logprobs\": 0}\r\n"
      "  \n"
      "{\"prompt\": \"Once \\u00e4\", \"prompt_ids\": null}",
      "dir/f.jsonl", {7, {.temperature = 3, .seed = 8}});
  REQUIRE(lines.size() == 2);
  const mkrt::Request& ids = lines[0].line.value().request;
  CHECK(ids.name == "dir/f.jsonl:1");
  CHECK(!lines[0].line.value().prompt);
  CHECK(ids.prompt == std::vector<int32_t>{1, 2});
  CHECK(ids.max_new_tokens == 3);
  CHECK(ids.arrive_at_step == 4);
  CHECK(ids.sampling.temperature == 0.5f);
  CHECK(ids.sampling.top_k == 6);
  CHECK(ids.sampling.top_p == 0.75f);
  CHECK(ids.sampling.min_p == 0.125f);
  CHECK(ids.sampling.repetition_penalty == 2);
  CHECK(ids.sampling.seed == UINT64_MAX);
  CHECK(ids.sampling.logprobs == 1);
  CHECK(lines[0].number == 1);
  CHECK(lines[1].number == 3);
  const mkrt::Request& text = lines[1].line.value().request;
  CHECK(text.name == "dir/f.jsonl:3");
  CHECK(lines[1].line.value().prompt == "Once ä");
  CHECK(text.prompt.empty());
  CHECK(text.max_new_tokens == 7);
  CHECK(text.arrive_at_step == 0);
  CHECK(text.sampling.temperature == 3);
  CHECK(text.sampling.seed == 8);
  CHECK(text.sampling.logprobs == 0);
  CHECK(parse_batch_file("\n\n", "f", {}).empty());
}

TEST_CASE("a bad line is named with its key, what was found and what is expected") {
  CHECK(error_of("[1]") == "f.jsonl:1: error: found an array, expected an object");
  CHECK(
      error_of(R"({"prompt_ids": [1], "max_tokens": 2})") ==
      "f.jsonl:1: error: unknown key \"max_tokens\", known: prompt, prompt_ids, messages, "
      "max_new_tokens, arrive_at_step, priority, temperature, top_k, top_p, min_p, repetition_penalty, seed, "
      "logprobs, logit_bias, presence_penalty, frequency_penalty, min_tokens, allowed_token_ids, "
      "stop_token_ids");
  CHECK(error_of(R"({"prompt": "a", "temperature": "1"})") ==
        "f.jsonl:1: error: temperature: found \"1\", expected a number");
  CHECK(error_of(R"({"prompt": "a", "seed": -1})") ==
        "f.jsonl:1: error: seed: found -1, expected an integer from 0 to 2^64 - 1");
  CHECK(error_of(R"({"prompt": "a", "logprobs": 21})") ==
        "f.jsonl:1: error: logprobs: found 21, expected an integer from 0 to 20");
  CHECK(error_of(R"({"prompt": "a", "prompt": "b"})") == "f.jsonl:1: error: key \"prompt\" is given twice");
  CHECK(error_of(R"({"max_new_tokens": 1})") ==
        "f.jsonl:1: error: found none of the keys prompt, prompt_ids and messages, expected one of them");
  CHECK(error_of(R"({"prompt": "a", "prompt_ids": [1]})") ==
        "f.jsonl:1: error: found two of the keys prompt, prompt_ids and messages, expected one of them");
  CHECK(error_of(R"({"prompt": 7})") == "f.jsonl:1: error: prompt: found 7, expected a string");
  CHECK(error_of(R"({"prompt_ids": "1,2"})") ==
        "f.jsonl:1: error: prompt_ids: found \"1,2\", expected an array");
  CHECK(error_of(R"({"prompt_ids": [1, -2]})") ==
        "f.jsonl:1: error: prompt_ids[1]: found -2, expected an integer from 0 to 2147483647");
  CHECK(error_of(R"({"prompt_ids": [1, 2.5]})") ==
        "f.jsonl:1: error: prompt_ids[1]: found 2.5, expected an integer from 0 to 2147483647");
  CHECK(error_of(R"({"prompt_ids": [1], "max_new_tokens": "9"})") ==
        "f.jsonl:1: error: max_new_tokens: found \"9\", expected an integer from 0 to 2147483647");
  CHECK(error_of(R"({"prompt_ids": [1], "arrive_at_step": 1.5})") ==
        "f.jsonl:1: error: arrive_at_step: found 1.5, expected an integer from 0 to 2^64 - 1");
  CHECK(error_of(R"({"prompt_ids": [1)").find("f.jsonl:1: error: not JSON: ") == 0);
  CHECK(error_of("\xff\xfe").find("f.jsonl:1: error: not JSON: ") == 0);
}

TEST_CASE("a line may have biases of ids, penalties by counts and a least number of tokens") {
  const auto lines = parse_batch_file(
      "{\"prompt_ids\": [1], \"logit_bias\": {\"7\": -2.5, \"0\": 100}, \"presence_penalty\": 0.5, "
      "\"frequency_penalty\": -1, \"min_tokens\": 4}",
      "f.jsonl", {});
  REQUIRE(lines.size() == 1);
  const mkrt::Result<BatchLine>& line = lines[0].line;
  REQUIRE_MESSAGE(line.ok(), (line.ok() ? "" : line.error().message));
  const mkrt::BiasSettings& bias = line.value().request.bias;
  std::map<int32_t, float> values;
  for (const mkrt::LogitBias& of : bias.logit_bias) values[of.id] = of.value;
  CHECK(values == std::map<int32_t, float>{{0, 100.0f}, {7, -2.5f}});
  CHECK(bias.presence_penalty == 0.5f);
  CHECK(bias.frequency_penalty == -1);
  CHECK(bias.min_new_tokens == 4);
  CHECK(error_of(R"({"prompt_ids": [1], "allowed_token_ids": []})") ==
        "f.jsonl:1: error: allowed_token_ids: found an empty array, expected at least one id");
  CHECK(error_of(R"({"prompt_ids": [1], "allowed_token_ids": null})") == "");
  CHECK(error_of(R"({"prompt_ids": [1], "logit_bias": [1]})") ==
        "f.jsonl:1: error: logit_bias: found an array, expected an object");
  CHECK(error_of(R"({"prompt_ids": [1], "logit_bias": {"the": 1}})") ==
        "f.jsonl:1: error: logit_bias: found the key \"the\", expected a token id");
  CHECK(error_of(R"({"prompt_ids": [1], "logit_bias": {"5": "1"}})") ==
        "f.jsonl:1: error: logit_bias.5: found \"1\", expected a number from -1e+30 to 1e+30");
}

TEST_CASE("biases of a line change its answer alone") {
  const std::vector<json> answers = answers_of(R"({"prompt_ids": [7], "max_new_tokens": 3}
{"prompt_ids": [7], "max_new_tokens": 3, "logit_bias": {"11": 50}}
{"prompt_ids": [7], "max_new_tokens": 3, "logit_bias": {"100": 1}}
{"prompt_ids": [7], "presence_penalty": 3})");
  CHECK(answers[0]["new_ids"] == mkrt::fake_generate({7}, 3, {}, kLimits.vocab));
  CHECK(answers[1]["new_ids"] == json{11, 11, 11});
  CHECK(answers[2] == refused(3, "f.jsonl:3: error: logit_bias: found the id 100, expected 0 to 99"));
  CHECK(answers[3] == refused(4, "f.jsonl:4: error: presence_penalty: is 3, expected -2 to 2"));
}

TEST_CASE("answers name their lines, and bad lines do not touch the others") {
  const std::vector<json> answers = answers_of(
      R"({"prompt_ids": [1, 2, 3], "max_new_tokens": 4, "arrive_at_step": 9}
{"prompt_ids": [1, 2, 3], "max_new_tokens": "4"}
{"prompt_ids": [], "max_new_tokens": 4}
{"prompt_ids": [5, 100]}
{"prompt": "Once"}

{"prompt_ids": [7], "max_new_tokens": 2}
{"prompt_ids": [7], "max_new_tokens": 0}
{"prompt_ids": [7], "temperature": 1e300}
{"prompt_ids": [7]}
)",
      {}, {.max_new_tokens = 5, .sampling = {}});
  const auto alone = [](int line, std::vector<int32_t> prompt, uint32_t count) {
    return json{{"line", line},
                {"new_ids", mkrt::fake_generate(std::move(prompt), count, {}, kLimits.vocab)},
                {"text", nullptr},
                {"finish_reason", "length"},
                {"cached_tokens", 0}};
  };
  REQUIRE(answers.size() == 9);
  CHECK(answers[0] == alone(1, {1, 2, 3}, 4));
  CHECK(answers[1] == refused(2,
                              "f.jsonl:2: error: max_new_tokens: found \"4\", expected an integer from 0 to "
                              "2147483647"));
  CHECK(answers[2] == refused(3, "f.jsonl:3: error: prompt: is empty, expected at least one token"));
  CHECK(answers[3] == refused(4, "f.jsonl:4: error: prompt: token 1 has the id 100, expected 0 to 99"));
  CHECK(answers[4] ==
        refused(5, "f.jsonl:5: error: prompt: found text, expected prompt_ids: there is no tokenizer.json"));
  CHECK(answers[5] == alone(7, {7}, 2));
  CHECK(answers[6] == refused(8, "f.jsonl:8: error: max_new_tokens: found 0, expected 1 or more"));
  CHECK(answers[7] == refused(9, "f.jsonl:9: error: temperature: is 3.4028235e+38, expected 0 to 1000000"));
  CHECK(answers[8] == alone(10, {7}, 5));
}

TEST_CASE("a prompt as text is one as the tokenizer's ids, and answers have their text") {
  const auto tokenizer = mkrt::load_tokenizer(MKC_SOURCE_DIR "/models/tiny-stories/tokenizer.json");
  REQUIRE(tokenizer.ok());
  const std::vector<int32_t> ids = mkrt::encode(tokenizer.value(), "Hi", true).value();
  REQUIRE(*std::ranges::max_element(ids) < static_cast<int32_t>(kLimits.vocab));
  const std::vector<json> answers = answers_of("{\"prompt\": \"Hi\", \"max_new_tokens\": 6}\n" +
                                                   json{{"prompt_ids", ids}, {"max_new_tokens", 6}}.dump() +
                                                   "\n" + "{\"prompt\": \"\\ud800\"}",
                                               {.tokenizer = &tokenizer.value()});
  REQUIRE(answers.size() == 3);
  CHECK(answers[0]["text"] == answers[1]["text"]);
  CHECK(answers[0]["new_ids"] == answers[1]["new_ids"]);
  const std::vector<int32_t> new_ids = mkrt::fake_generate(ids, 6, {}, kLimits.vocab);
  CHECK(answers[0]["text"] == mkrt::decode(tokenizer.value(), new_ids, true).value());
  CHECK(answers[2]["finish_reason"] == "error");
}

TEST_CASE("the text of an answer goes on with its prompt") {
  mkrt::Tokenizer tokenizer;
  tokenizer.decoder.tokens = {{mkrt::TokenKind::kText, false, " I"},
                              {mkrt::TokenKind::kText, false, " had"},
                              {mkrt::TokenKind::kText, true, "<s>"}};
  tokenizer.decoder.strip = " ", tokenizer.decoder.strip_count = 1;
  const std::vector<json> answers = answers_of(
      "{\"prompt_ids\": [2, 0], \"max_new_tokens\": 2, \"allowed_token_ids\": [1]}\n"
      "{\"prompt_ids\": [2], \"max_new_tokens\": 2, \"allowed_token_ids\": [1]}",
      {.tokenizer = &tokenizer});
  CHECK(answers[0]["text"] == " had had");
  CHECK(answers[1]["text"] == "had had");
}

TEST_CASE("log-probabilities are in the answers of lines that ask for them") {
  const std::vector<json> answers = answers_of(
      "{\"prompt_ids\": [1], \"max_new_tokens\": 2, \"logprobs\": 1, \"seed\": 3, \"temperature\": 4}\n"
      "{\"prompt_ids\": [1]}");
  const mkrt::MkSampling sampling = {.temperature = 4, .logprobs = 2, .seed = 3};
  const mkrt::Sampled first = mkrt::sample(mkrt::fake_logits(std::vector{1}, kLimits.vocab), sampling);
  REQUIRE(answers[0]["logprobs"].size() == 2);
  CHECK(answers[0]["logprobs"][0] ==
        json{{"id", first.id},
             {"logprob", first.logprob},
             {"top", {{{"id", first.top[0].id}, {"logprob", first.top[0].logprob}}}}});
  CHECK(answers[0]["new_ids"][0] == first.id);
  CHECK(!answers[1].contains("logprobs"));
}

TEST_CASE("answers say how many tokens of the prompt were in the prefix cache") {
  std::string text;
  for (const uint32_t step : {0, 9, 18})
    text += json{{"prompt_ids", std::vector<int32_t>(step == 9 ? 32 : 40, 5)},
                 {"max_new_tokens", 2},
                 {"arrive_at_step", step}}
                .dump() +
            "\n";
  for (const bool prefix_cache : {false, true}) {
    mkrt::FakeModel model(kLimits);
    mkrt::Engine engine = mkrt::Engine::open(model, {.prefix_cache = prefix_cache}).value();
    BatchSource source = BatchSource::of_text(text, "f", {});
    std::vector<json> answers;
    CHECK(answer_batch(source, engine, {}, put_to(answers)).ok());
    std::vector<int> cached;
    for (const json& answer : answers) cached.push_back(answer["cached_tokens"]);
    // The last token of a prompt is always fed: of 32 tokens, only the first page is taken from the cache.
    CHECK(cached == (prefix_cache ? std::vector{0, 16, 32} : std::vector{0, 0, 0}));
    CHECK(engine.stats().prefix_queries == (prefix_cache ? 112 : 0));
  }
}

TEST_CASE("a fault is told by every request that it ends") {
  mkrt::FakeModel model(kLimits);
  model.fail_at = 1;
  mkrt::Engine engine = mkrt::Engine::open(model).value();
  BatchSource source = BatchSource::of_text(
      "{\"prompt_ids\": [1], \"max_new_tokens\": 1}\n{\"prompt_ids\": [1], \"max_new_tokens\": 2}", "f.jsonl",
      {});
  std::vector<json> answers;
  const mkrt::Status fault = answer_batch(source, engine, {}, put_to(answers));
  REQUIRE(!fault.ok());
  CHECK(fault.error().message == "fake: error: worker 3 waited");
  REQUIRE(answers.size() == 2);
  CHECK(answers[0]["finish_reason"] == "length");
  CHECK(answers[1]["error"] == "fake: error: worker 3 waited");
  CHECK(answers[1]["new_ids"].size() == 1);
}

TEST_CASE("answers come when they are known: bad lines at once, short requests before long ones") {
  std::vector<int> lines;
  for (const json& answer : answers_as_they_came(R"({"prompt_ids": [1], "max_new_tokens": 9}
{"prompt_ids": [2], "max_new_tokens": 5}
{"prompt_ids": [3], "max_new_tokens": 1}
{"prompt_ids": [4], "max_new_tokens": "1"})"))
    lines.push_back(answer["line"]);
  CHECK(lines == std::vector{4, 3, 2, 1});
}

TEST_CASE("an answer that cannot be put ends the batch") {
  mkrt::FakeModel model(kLimits);
  mkrt::Engine engine = mkrt::Engine::open(model).value();
  BatchSource source = BatchSource::of_text(
      "{\"prompt_ids\": [1], \"max_new_tokens\": 1}\n{\"prompt_ids\": [1], \"max_new_tokens\": 9}", "f", {});
  const mkrt::Status status =
      answer_batch(source, engine, {}, [](const std::string&) { return mkrt::Status(mkrt::Error{"full"}); });
  REQUIRE(!status.ok());
  CHECK(status.error().message == "full");
  CHECK(model.steps.size() == 1);
}

TEST_CASE("a line may say its priority, its stop tokens and the tokens that are allowed") {
  const auto lines = parse_batch_file(
      R"({"prompt_ids": [1], "priority": -3, "stop_token_ids": [4, 5], "allowed_token_ids": [7, 4]})",
      "f.jsonl", {});
  const mkrt::Request& request = lines.at(0).line.value().request;
  CHECK(request.priority == -3);
  CHECK(request.stop_ids == std::vector<int32_t>{4, 5});
  CHECK(request.bias.allowed_ids == std::vector<int32_t>{7, 4});
  CHECK(error_of(R"({"prompt_ids": [1], "priority": 2147483648})") ==
        "f.jsonl:1: error: priority: found 2147483648, expected an integer from -2147483648 to 2147483647");
  CHECK(error_of(R"({"prompt_ids": [1], "stop_token_ids": 4})") ==
        "f.jsonl:1: error: stop_token_ids: found 4, expected an array of at most 1048576 token ids");
  CHECK(error_of(json{{"prompt_ids", {1}}, {"stop_token_ids", std::vector<int>(65, 1)}}.dump()) ==
        "f.jsonl:1: error: stop_token_ids: found an array, expected an array of at most 64 token ids");
  CHECK(error_of(R"({"prompt_ids": [1], "allowed_token_ids": [1, -1]})") ==
        "f.jsonl:1: error: allowed_token_ids[1]: found -1, expected an integer from 0 to 2147483647");
}

TEST_CASE("priority, stop tokens and allowed tokens change the answers") {
  const std::vector<int32_t> plain = mkrt::fake_generate({7}, 9, {}, kLimits.vocab);
  const std::vector<json> answers =
      answers_of(json{{"prompt_ids", {7}}, {"max_new_tokens", 9}, {"stop_token_ids", {plain[3]}}}.dump() +
                 "\n" + json{{"prompt_ids", {7}}, {"max_new_tokens", 3}, {"allowed_token_ids", {11}}}.dump() +
                 "\n" + json{{"prompt_ids", {7}}, {"stop_token_ids", {100}}}.dump());
  CHECK(answers[0]["finish_reason"] == "stop");
  CHECK(answers[0]["new_ids"] == mkrt::fake_generate({7}, 9, {plain[3]}, kLimits.vocab));
  CHECK(answers[1]["new_ids"] == json{11, 11, 11});
  CHECK(answers[2]["finish_reason"] == "error");
  // Rows are few: a prompt of smaller priority number is fed before one that came earlier.
  std::vector<int> lines;
  const std::vector<int32_t> prompt(40, 5);
  for (const json& answer :
       answers_as_they_came(json{{"prompt_ids", prompt}, {"max_new_tokens", 1}}.dump() + "\n" +
                            json{{"prompt_ids", prompt}, {"max_new_tokens", 1}, {"priority", -1}}.dump()))
    lines.push_back(answer["line"]);
  CHECK(lines == std::vector{2, 1});
}

TEST_CASE("messages are rendered by the chat template") {
  const auto tokenizer = mkrt::load_tokenizer(MKC_SOURCE_DIR "/models/tiny-stories/tokenizer.json");
  REQUIRE(tokenizer.ok());
  const auto render = [](const nlohmann::ordered_json& messages,
                         const nlohmann::ordered_json& variables) -> mkrt::Result<std::string> {
    if (messages[0]["content"] == "no") return mkrt::Error{"t.jinja:1: error: refused"};
    if (messages[0]["content"] == "bad") return mkrt::Error{"messages[0]: bad"};
    std::string text;
    for (const auto& message : messages)
      text += message["role"].get<std::string>().substr(0, 1) + "." + message["content"].get<std::string>();
    return text + (variables["add_generation_prompt"] == true ? ".a" : "?");
  };
  const BatchOptions options{.tokenizer = &tokenizer.value(), .render_chat = render};
  const std::string chat =
      R"({"max_new_tokens": 4, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]})";
  const std::vector<json> answers =
      answers_of(chat + "\n" +
                     json{{"prompt_ids", mkrt::encode(tokenizer.value(), "u.Hi.a", false).value()},
                          {"max_new_tokens", 4}}
                         .dump() +
                     "\n" + R"({"messages": [{"role": "user", "content": "no"}]})",
                 options);
  CHECK(answers[0]["new_ids"].size() == 4);
  CHECK(answers[0]["new_ids"] == answers[1]["new_ids"]);
  CHECK(answers[2] == [&] {
    json expected = refused(3, "f.jsonl:3: error: messages: t.jinja:1: error: refused");
    expected["text"] = "";
    return expected;
  }());
  CHECK(answers_of(R"({"messages": [{"role": "user", "content": "bad"}]})", options)[0]["error"] ==
        "f.jsonl:1: error: messages[0]: bad");
  CHECK(answers_of(chat, {.tokenizer = &tokenizer.value()})[0]["error"] ==
        "f.jsonl:1: error: messages: found a chat, expected a prompt: there is no chat template");
  CHECK(answers_of(chat)[0]["error"] ==
        "f.jsonl:1: error: messages: found text, expected prompt_ids: there is no tokenizer.json");
  CHECK(error_of(R"({"messages": [{"role": "me", "content": "x"}]})")
            .starts_with("f.jsonl:1: error: messages[0].role: found \"me\", supported: system, developer"));
  CHECK(error_of(R"({"messages": [{"role": "assistant", "tool_calls": [{"n": 123456789012345678901}]}]})") ==
        "f.jsonl:1: error: found the integer 123456789012345678901, expected at most 64 bits");
  CHECK(error_of(R"({"messages": [{"role": "user", "content": "x"}], "prompt": "y"})") ==
        "f.jsonl:1: error: found two of the keys prompt, prompt_ids and messages, expected one of them");
}

TEST_CASE("text whose bytes are none is quoted in a valid answer") {
  const std::vector<json> answers = answers_of("{\"prompt_ids\": \"\xff\"}\n{\"\xff\": 1}\n\xc3");
  for (const json& answer : answers) CHECK(answer["finish_reason"] == "error");
}

}  // namespace
}  // namespace mkc
