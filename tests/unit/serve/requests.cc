// These tests check what is read of request bodies, and what each wrong body is told.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "runtime/text/chat_template.h"
#include "tools/serve/api_request.h"

using namespace mkc;

namespace {

struct Bad {
  std::string body, message, param;
};

// Returns a body with a field beside those that are needed.
std::string completion(const std::string& field) {
  return R"({"prompt": "x", )" + field + "}";
}
std::string chat(const std::string& field) {
  return R"({"messages": [{"role": "user", "content": "x"}], )" + field + "}";
}

template <class Read>
void check_refused(const Read& read, const std::vector<Bad>& table) {
  for (const Bad& bad : table) {
    CAPTURE(bad.body);
    ApiRequest request;
    const std::optional<ApiError> error = read(bad.body, request);
    REQUIRE(error);
    CHECK(error->status == 400);
    CHECK(error->message.substr(0, bad.message.size()) == bad.message);
    CHECK(error->param == bad.param);
    CHECK(nlohmann::json::parse(error_json(*error))["error"]["type"] == "invalid_request_error");
  }
}

ApiRequest accepted(std::optional<ApiError> (*read)(const std::string&, ApiRequest&),
                    const std::string& body) {
  ApiRequest request;
  const std::optional<ApiError> error = read(body, request);
  CAPTURE(body);
  CHECK_MESSAGE(!error, (error ? error->message : ""));
  return request;
}

}  // namespace

TEST_CASE("bodies that are no object of JSON are refused") {
  check_refused(read_completion, {{"", "not JSON: parse error at line 1, column 1", ""},
                                  {"[1]", "found a body that is array, expected an object", ""},
                                  {"{\"prompt\": \"\xff\"}", "not JSON: parse error", ""},
                                  {R"({"prompt": "x", "prompt": "y"})", "key \"prompt\" is given twice", ""},
                                  {R"({"prompt": "x", "top_p": 1e999})", "not JSON: number overflow", ""},
                                  {R"({"prompt": "x", "top_p": NaN})", "not JSON: parse error", ""},
                                  {"{\"prompt\": " + std::string(100, '[') + std::string(100, ']') + "}",
                                   "nested more than 64 levels deep", ""},
                                  {R"({"prompt": "x"} {})", "not JSON: parse error", ""}});
}

TEST_CASE("fields of completions are refused by name") {
  check_refused(
      read_completion,
      {{"{}", "prompt: is missing, expected a string", "prompt"},
       {R"({"prompt": null})", "prompt: is missing", "prompt"},
       {R"({"prompt": 1})", "prompt: found 1, expected a string, token ids, or an array of either", "prompt"},
       {R"({"prompt": []})", "prompt: found an array, expected a string", "prompt"},
       {R"({"prompt": [[]]})", "prompt: found an array, expected", "prompt"},
       {R"({"prompt": ["x", 1]})", "prompt: found an array, expected", "prompt"},
       {R"({"prompt": [1, -1]})", "prompt[1]: found -1, expected an integer from 0 to 2147483647", "prompt"},
       {R"({"prompt": [1.5]})", "prompt[0]: found 1.5, expected an integer", "prompt"},
       {completion(R"("temprature": 1)"),
        "found the unknown field \"temprature\" (did you mean temperature?)", "temprature"},
       {completion(R"("messages": [])"), "found the unknown field \"messages\"", "messages"},
       {completion(R"("model": 5)"), "model: found 5, expected a string", "model"},
       {completion(R"("temperature": "hot")"),
        "temperature: found \"hot\", expected a number from 0 to 1000000", "temperature"},
       {completion(R"("temperature": -0.1)"), "temperature: found -0.1, expected a number from 0",
        "temperature"},
       {completion(R"("top_p": 0)"), "top_p: found 0, expected a number above 0, at most 1", "top_p"},
       {completion(R"("top_p": 1e-60)"), "top_p: found 1e-60, expected a number above 0", "top_p"},
       {completion(R"("top_p": 1.1)"), "top_p: found 1.1, expected a number from", "top_p"},
       {completion(R"("min_p": 2)"), "min_p: found 2, expected a number from 0 to 1", "min_p"},
       {completion(R"("repetition_penalty": 0)"), "repetition_penalty: found 0, expected a number from 0.001",
        "repetition_penalty"},
       {completion(R"("logit_bias": {"one": 5})"), "logit_bias: found the key \"one\", expected a token id",
        "logit_bias"},
       {completion(R"("logit_bias": {"1": 101})"),
        "logit_bias.1: found 101, expected a number from -100 to 100", "logit_bias"},
       {completion(R"("presence_penalty": 2.5)"),
        "presence_penalty: found 2.5, expected a number from -2 to 2", "presence_penalty"},
       {completion(R"("frequency_penalty": "x")"), "frequency_penalty: found \"x\", expected a number",
        "frequency_penalty"},
       {completion(R"("min_tokens": -1)"), "min_tokens: found -1, expected an integer from 0", "min_tokens"},
       {completion(R"("allowed_token_ids": 5)"), "allowed_token_ids: found 5, expected", "allowed_token_ids"},
       {completion(R"("allowed_token_ids": [])"),
        "allowed_token_ids: found an empty array, expected at least one id", "allowed_token_ids"},
       {completion(R"("top_k": -2)"), "top_k: found -2, expected an integer from -1", "top_k"},
       {completion(R"("top_k": 4294967296)"), "top_k: found 4294967296, expected an integer from -1",
        "top_k"},
       {completion(R"("max_tokens": 0)"), "max_tokens: found 0, expected an integer from 1 to 1073741824",
        "max_tokens"},
       {completion(R"("max_tokens": 18446744073709551615)"),
        "max_tokens: found 18446744073709551615, expected", "max_tokens"},
       {completion(R"("max_tokens": 1.0)"), "max_tokens: found 1.0, expected an integer", "max_tokens"},
       {completion(R"("n": 129)"), "n: found 129, expected an integer from 1 to 128", "n"},
       {completion(R"("seed": 1.5)"), "seed: found 1.5, expected an integer from -2^63 to 2^64 - 1", "seed"},
       {completion(R"("seed": 99999999999999999999)"), "seed: found", "seed"},
       {completion(R"("stop": "")"), "stop: found \"\", expected a string of 1 to 1024 bytes", "stop"},
       {completion(R"("stop": ["a", 1])"), "stop[1]: found 1, expected a string", "stop"},
       {completion(R"("stop": ["a", "b", "c", "d", "e"])"),
        "stop: found an array, expected a string, or an array of at most 4 strings", "stop"},
       {completion(R"("stop_token_ids": [-1])"), "stop_token_ids[0]: found -1, expected an integer",
        "stop_token_ids"},
       {completion(R"("stop_token_ids": 1)"),
        "stop_token_ids: found 1, expected an array of at most 1048576 token ids", "stop_token_ids"},
       {completion(R"("logprobs": 21)"), "logprobs: found 21, expected an integer from 0 to 20", "logprobs"},
       {completion(R"("logprobs": true)"), "logprobs: found true, expected an integer", "logprobs"},
       {completion(R"("echo": 1)"), "echo: found 1, expected true or false", "echo"},
       {completion(R"("max_tokens": 0)"), "max_tokens: found 0, expected an integer from 1", "max_tokens"},
       {completion(R"("echo": true, "max_tokens": -1)"), "max_tokens: found -1, expected an integer from 0",
        "max_tokens"},
       {completion(R"("stream": "yes")"), "stream: found \"yes\", expected true or false", "stream"},
       {completion(R"("stream_options": {"include_usage": true})"), "stream_options: is for stream true",
        "stream_options"},
       {completion(R"("stream": true, "stream_options": {"usage": true})"),
        "stream_options: unknown key \"usage\", known: include_usage", "stream_options"},
       {completion(R"("priority": 2147483648)"),
        "priority: found 2147483648, expected an integer from -2147483648", "priority"},
       {completion(R"("user": 1)"), "user: found 1, expected a string", "user"},
       {completion(R"("safety_identifier": 1)"), "safety_identifier: found 1, expected a string",
        "safety_identifier"},
       {completion(R"("prompt_cache_key": 1)"), "prompt_cache_key: found 1, expected a string",
        "prompt_cache_key"}});
}

TEST_CASE("fields that say whose a request is are read, and change nothing") {
  for (const std::string field : {"user", "safety_identifier", "prompt_cache_key"}) {
    CAPTURE(field);
    CHECK(accepted(read_completion, completion("\"" + field + "\": \"a\"")).prompts.size() == 1);
    CHECK(accepted(read_completion, completion("\"" + field + "\": null")).prompts.size() == 1);
  }
}

TEST_CASE("lists have bounds") {
  const auto list = [](const std::string& item, size_t count) {
    std::string text = "[" + item;
    for (size_t i = 1; i < count; ++i) text += "," + item;
    return text + "]";
  };
  check_refused(read_completion,
                {{"{\"prompt\": " + list("1", (1 << 20) + 1) + "}",
                  "prompt: found an array, expected an array of at most 1048576 token ids", "prompt"},
                 {"{\"prompt\": " + list("\"x\"", 4097) + "}",
                  "prompt: found an array, expected at most 4096 prompts", "prompt"}});
  check_refused(read_chat_completion,
                {{"{\"messages\": " + list("{}", (1 << 16) + 1) + "}",
                  "messages: found an array, expected an array of 1 to 65536 messages", "messages"}});
  std::string keys = "\"0\": 0";
  for (int i = 1; i <= 512; ++i) keys += ", \"" + std::to_string(i) + "\": 0";
  check_refused(
      read_chat_completion,
      {{chat("\"chat_template_kwargs\": {\"a\": [{" + keys + "}]}"),
        "chat_template_kwargs: found an object of 513 keys, expected at most 512", "chat_template_kwargs"}});
}

TEST_CASE("fields that mkc does not serve are refused, unless they change nothing") {
  check_refused(read_completion, {{completion(R"("best_of": 2)"), "best_of: found 2, expected 1", "best_of"},
                                  {completion(R"("suffix": "end")"),
                                   "suffix: found \"end\", expected an empty string", "suffix"}});
  check_refused(read_chat_completion,
                {{chat(R"("tools": [{"type": "function"}])"),
                  "tools: found an array, expected an empty array", "tools"},
                 {chat(R"("tool_choice": "required")"),
                  "tool_choice: found \"required\", expected \"none\" or \"auto\"", "tool_choice"},
                 {chat(R"("response_format": {"type": "json_object"})"),
                  "response_format: found an object, expected {\"type\":\"text\"}", "response_format"}});
  accepted(read_chat_completion,
           chat(R"("tools": [], "tool_choice": "auto", "response_format": {"type": "text"}, "logit_bias": {},
                   "presence_penalty": 0, "frequency_penalty": 0.0, "min_tokens": 0, "parallel_tool_calls": true,
                   "store": false, "metadata": null, "reasoning_effort": null, "modalities": ["text"], "n": null)"));
}

TEST_CASE("messages are checked") {
  const auto of = [](const std::string& messages) { return "{\"messages\": " + messages + "}"; };
  check_refused(
      read_chat_completion,
      {{"{}", "messages: is missing, expected an array of messages", "messages"},
       {of("\"hi\""), "messages: found \"hi\", expected an array of 1 to 65536 messages", "messages"},
       {of("[]"), "messages: found an array, expected an array of 1 to 65536 messages", "messages"},
       {of("[1]"), "messages[0]: found 1, expected an object", "messages"},
       {of(R"([{"content": "x"}])"), "messages[0]: key \"role\" is missing", "messages"},
       {of(R"([{"role": "robot", "content": "x"}])"),
        "messages[0].role: found \"robot\", supported: system, developer", "messages"},
       {of(R"([{"role": "user", "content": 1}])"), "messages[0].content: found 1, expected a string, null",
        "messages"},
       {of(R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])"),
        "messages[0].content[0].type: found \"image_url\", supported: text", "messages"},
       {of(R"([{"role": "user", "content": "x", "weight": 1}])"),
        "messages[0].weight: found 1, expected no value", "messages"},
       {chat(R"("chat_template_kwargs": {"messages": 1})"),
        "chat_template_kwargs.messages: found 1, expected another name", "chat_template_kwargs"},
       {chat(R"("chat_template_kwargs": {"enable_thinking": "false"})"),
        "chat_template_kwargs.enable_thinking: found \"false\", expected true or false",
        "chat_template_kwargs"},
       {chat(R"("chat_template_kwargs": {"reasoning_effort": 1})"),
        "chat_template_kwargs.reasoning_effort: found 1, expected a string", "chat_template_kwargs"},
       {chat(R"("reasoning_effort": 1)"), "reasoning_effort: found 1, expected a string", "reasoning_effort"},
       {chat(R"("reasoning_effort": "much")"),
        "reasoning_effort: found \"much\", supported: none, minimal, low, medium, high, xhigh",
        "reasoning_effort"},
       {chat(R"("reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "high"})"),
        "reasoning_effort: found \"low\", expected \"high\", as in chat_template_kwargs", "reasoning_effort"},
       {chat(R"("chat_template_kwargs": {"n": [9223372036854775807, 18446744073709551616]})"),
        "found the integer 18446744073709551616, expected at most 64 bits", ""},
       {of(R"([{"role": "assistant", "tool_calls": [{"n": -9223372036854775809}]}])"),
        "found the integer -9223372036854775809, expected at most 64 bits", ""},
       {chat(R"("chat_template_kwargs": 1)"), "chat_template_kwargs: found 1, expected an object",
        "chat_template_kwargs"},
       {chat(R"("continue_final_message": true)"),
        "continue_final_message: found true with add_generation_prompt", "continue_final_message"},
       {chat(R"("logprobs": 1)"), "logprobs: found 1, expected true or false", "logprobs"},
       {chat(R"("top_logprobs": 2)"), "top_logprobs: is for logprobs true", "top_logprobs"},
       {chat(R"("prompt": "x")"), "found the unknown field \"prompt\"", "prompt"},
       {chat(R"("max_tokens": 1, "max_completion_tokens": 2)"),
        "max_tokens: found 1, expected 2, as in the other", "max_tokens"}});
}

TEST_CASE("messages keep the order of their keys, and lose what templates do not read") {
  const ApiRequest request = accepted(
      read_chat_completion,
      R"({"messages": [{"role": "assistant", "refusal": null, "content": [{"type": "text", "text": "a"},
          {"text": "b", "type": "text"}], "annotations": []}],
          "chat_template_kwargs": {"z": 1, "a": 2}, "top_logprobs": 3, "logprobs": true})");
  REQUIRE(request.chat);
  CHECK(request.chat->messages.dump() == R"([{"role":"assistant","content":"a\nb"}])");
  CHECK(request.chat->variables.dump() == R"({"z":1,"a":2})");
  CHECK(request.logprobs == 3u);
  const ApiRequest again = accepted(
      read_chat_completion,
      R"({"messages": [{"role": "assistant", "content": null, "name": null, "reasoning": null, "tool_calls": []},
          {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]}]})");
  CHECK(again.chat->messages.dump() ==
        R"([{"role":"assistant"},{"role":"assistant","content":"","tool_calls":[{"id":"a"}]}])");
}

TEST_CASE("the three names of a message's reasoning render alike") {
  const auto thinker = mkrt::ChatTemplate::parse(
      "{% for m in messages %}<{{ m.reasoning_content }}|{{ m.thinking }}>{{ m.content }}{% "
      "endfor %}",
      "t.jinja");
  REQUIRE(thinker.ok());
  for (const std::string field : {"reasoning_content", "thinking", "reasoning"}) {
    CAPTURE(field);
    const ApiRequest request =
        accepted(read_chat_completion,
                 "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"" + field + "\": \"b\"}]}");
    const auto text = thinker.value().render(request.chat->messages, nlohmann::ordered_json::object());
    CHECK((text.ok() && text.value() == "<b|b>a"));
  }
}

TEST_CASE("the effort of reasoning becomes a variable of the chat template") {
  const auto variables = [](const std::string& fields) {
    const std::string body = chat(fields);
    const std::string found = accepted(read_chat_completion, body).chat->variables.dump();
    CHECK(accepted(read_tokenize, body).chat->variables.dump() == found);
    return found;
  };
  CHECK(variables(R"("reasoning_effort": "high")") == R"({"reasoning_effort":"high"})");
  CHECK(variables(R"("reasoning_effort": null)") == "{}");
  CHECK(variables(R"("reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": false})") ==
        R"({"enable_thinking":false,"reasoning_effort":"low"})");
  CHECK(variables(R"("reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "low"})") ==
        R"({"reasoning_effort":"low"})");
  // A template of its own may know further efforts.
  CHECK(variables(R"("chat_template_kwargs": {"reasoning_effort": "extreme"})") ==
        R"({"reasoning_effort":"extreme"})");
  check_refused(read_completion, {{completion(R"("reasoning_effort": "low")"),
                                   "reasoning_effort: found \"low\", expected null", "reasoning_effort"}});
}

TEST_CASE("all forms of prompts and numbers are read") {
  CHECK(accepted(read_completion, R"({"prompt": "x"})").prompts == std::vector<Prompt>{"x"});
  CHECK(accepted(read_completion, R"({"prompt": ["x", ""]})").prompts == std::vector<Prompt>{"x", ""});
  CHECK(accepted(read_completion, R"({"prompt": [5, 6]})").prompts ==
        std::vector<Prompt>{std::vector<int32_t>{5, 6}});
  CHECK(accepted(read_completion, R"({"prompt": [[5], [6]]})").prompts.size() == 2);
  const ApiRequest scored =
      accepted(read_completion, completion(R"("max_tokens": 0, "logprobs": 1, "echo": true)"));
  CHECK((scored.max_tokens == 0u && scored.logprobs == 1u && scored.echo));
  const ApiRequest request = accepted(
      read_completion,
      completion(R"("temperature": 2, "top_k": -1, "seed": -1, "stop": ["a", "b"], "n": 3, "stream": true,
                    "stream_options": {"include_usage": true}, "priority": -5, "ignore_eos": true)"));
  CHECK(request.sampling.temperature == 2.0f);
  CHECK(request.sampling.top_k == 0u);
  CHECK(request.sampling.seed == ~uint64_t{0});
  CHECK(request.stop == std::vector<std::string>{"a", "b"});
  CHECK(request.n == 3);
  CHECK((request.stream && request.include_usage && request.ignore_eos));
  CHECK(request.priority == -5);
  CHECK(accepted(read_completion, completion(R"("seed": 18446744073709551615)")).sampling.seed ==
        ~uint64_t{0});
  const mkrt::BiasSettings bias =
      accepted(read_completion, completion(R"("logit_bias": {"3": -100, "5": 0.5}, "presence_penalty": -2,
                                             "frequency_penalty": 1, "min_tokens": 4, "allowed_token_ids": [3, 5])"))
          .bias;
  REQUIRE(bias.logit_bias.size() == 2);
  CHECK((bias.logit_bias[0].id == 3 && bias.logit_bias[0].value == -100));
  CHECK((bias.presence_penalty == -2 && bias.frequency_penalty == 1 && bias.min_new_tokens == 4));
  CHECK(bias.allowed_ids == std::vector<int32_t>{3, 5});
  CHECK(accepted(read_completion, completion(R"("allowed_token_ids": null)")).bias.allowed_ids.empty());
}

TEST_CASE("tokenize takes a prompt or messages") {
  check_refused(read_tokenize,
                {{"{}", "prompt: found neither of prompt and messages", "prompt"},
                 {R"({"prompt": "x", "messages": [{"role": "user"}]})",
                  "prompt: found both of prompt and messages", "prompt"},
                 {R"({"prompt": ["x"]})", "prompt: found an array, expected a string", "prompt"}});
  check_refused(read_detokenize,
                {{"{}", "tokens: is missing", "tokens"},
                 {R"({"tokens": "x"})", "tokens: found \"x\", expected an array of at most 1048576 token ids",
                  "tokens"}});
  CHECK(accepted(read_tokenize, R"({"messages": [{"role": "user", "content": "x"}]})").chat.has_value());
  CHECK(accepted(read_detokenize, R"({"tokens": []})").prompts.size() == 1);
}
