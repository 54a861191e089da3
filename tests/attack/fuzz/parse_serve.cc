// Bodies of a server's requests are parsed here.
#include "tests/attack/fuzz/parsers.h"
#include "tools/serve/api_request.h"

namespace mkc::attack {
namespace {

using Read = std::optional<ApiError> (*)(const std::string& body, ApiRequest& request);

void read(Read reader, std::string_view input) {
  ApiRequest request;
  const std::optional<ApiError> error = reader(std::string(input), request);
  if (error) promise(error_json(*error).starts_with("{"), "an error of a request becomes an answer");
}

}  // namespace

void run_chat_request(std::string_view input) {
  read(read_chat_completion, input);
}

void run_completion_request(std::string_view input) {
  read(read_completion, input);
}

void run_tokenize_request(std::string_view input) {
  read(read_tokenize, input);
  read(read_detokenize, input);
}

std::vector<std::string> chat_request_seeds() {
  return {
      R"({"model": "m", "messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}],)"
      R"( "max_completion_tokens": 4, "temperature": 0.5, "top_p": 0.9, "seed": 7, "stream": true,)"
      R"( "stream_options": {"include_usage": true}, "logprobs": true, "top_logprobs": 2, "stop": ["x", "y"]})",
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "c"}]}, {"role": "assistant",)"
      R"( "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f",)"
      R"( "arguments": "{\"x\": 1}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "3"}], "n": 2,)"
      R"( "chat_template_kwargs": {"enable_thinking": false}, "reasoning_effort": "low", "top_k": 4,)"
      R"( "add_generation_prompt": false, "continue_final_message": true, "tools": [], "tool_choice": "none"})"};
}

std::vector<std::string> completion_request_seeds() {
  return {
      R"({"prompt": "Once", "max_tokens": 3, "echo": true, "logprobs": 1, "logit_bias": {"5": -100, "7": 1.5},)"
      R"( "presence_penalty": 0.5, "frequency_penalty": -1, "repetition_penalty": 1.1, "stop": "x"})",
      R"({"prompt": [[1, 2], [3]], "min_p": 0.1, "min_tokens": 2, "allowed_token_ids": [1, 2], "priority": -1,)"
      R"( "stop_token_ids": [2], "include_stop_str_in_output": true, "ignore_eos": true, "best_of": 1,)"
      R"( "skip_special_tokens": false, "add_special_tokens": false, "user": "u", "suffix": null})",
      R"({"prompt": ["a", "b"], "bad_words": [], "response_format": {"type": "text"}, "metadata": {}})"};
}

std::vector<std::string> tokenize_request_seeds() {
  return {R"({"model": "m", "prompt": "Once", "add_special_tokens": false})",
          R"({"messages": [{"role": "user", "content": "b"}], "add_generation_prompt": true})",
          R"({"model": "m", "tokens": [1, 2, 3, 2147483647]})"};
}

}  // namespace mkc::attack
