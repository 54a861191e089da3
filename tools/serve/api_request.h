// Clients ask by the fields of /v1/chat/completions, /v1/completions, /tokenize and /detokenize.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/abi/sampling.h"
#include "runtime/session/bias.h"
#include "tools/serve/api_error.h"

namespace mkc {

using Prompt = std::variant<std::string, std::vector<int32_t>>;

// SamplingFields are the fields that a request gives. The model's defaults stand for the others.
struct SamplingFields {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<uint32_t> top_k;
  std::optional<uint64_t> seed;
};

// ChatFields are the inputs of a chat template.
struct ChatFields {
  nlohmann::ordered_json messages;  // content is a string or null
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  std::optional<std::string> reasoning_effort;  // is among the variables, too
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

struct ApiRequest {
  std::optional<std::string> model;
  std::vector<Prompt> prompts;         // of a completion, or the one text of /tokenize
  std::optional<ChatFields> chat;      // in place of prompts
  bool add_special_tokens = true;      // to prompts that are text
  std::optional<uint32_t> max_tokens;  // 0: the answer repeats the prompt, and nothing more
  uint32_t n = 1;
  SamplingFields sampling;
  mkrt::BiasSettings bias;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  int32_t priority = 0;
  bool echo = false;
  std::optional<uint32_t> logprobs;  // likeliest tokens beside each token
  bool stream = false;
  bool include_usage = false;  // a stream's last chunk has the usage
};

// The functions read a request's body. An error names the first field that is wrong, the value found and the
// values expected. Unknown fields are errors. Fields that mkc does not serve are errors unless their value
// changes nothing.
std::optional<ApiError> read_chat_completion(const std::string& body, ApiRequest& request);
std::optional<ApiError> read_completion(const std::string& body, ApiRequest& request);
std::optional<ApiError> read_tokenize(const std::string& body, ApiRequest& request);
std::optional<ApiError> read_detokenize(const std::string& body, ApiRequest& request);

}  // namespace mkc
