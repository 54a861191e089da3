#include "tools/serve/api_request.h"

#include <fmt/format.h>

#include "runtime/base/json_node.h"
#include "runtime/base/json_text.h"
#include "tools/chat_messages.h"
#include "tools/serve/fields.h"

namespace mkc {
namespace {

using mkrt::JsonNode;

constexpr size_t kMaxPrompts = 4096;

ChatFields& chat_of(ApiRequest& request) {
  if (!request.chat) request.chat.emplace();
  return *request.chat;
}

void read_max_completion_tokens(const JsonNode& node, ApiRequest& request) {
  generation_fields()[1].read(node, request);
}

// Reads a prompt: text, token ids, or a list of either.
void read_prompt(const JsonNode& node, ApiRequest& request) {
  const auto is_list_of = [](const nlohmann::json& list, auto is_kind) {
    return list.is_array() && !list.empty() && std::all_of(list.begin(), list.end(), is_kind);
  };
  const nlohmann::json& raw = node.raw();
  const bool is_list_of_prompts = raw.is_array() && !raw.empty() && !raw[0].is_number();
  if (is_list_of_prompts && raw.size() > kMaxPrompts)
    return node.fail_expected(fmt::format("at most {} prompts", kMaxPrompts));
  const auto is_number = [](const nlohmann::json& v) { return v.is_number(); };
  if (raw.is_string()) {
    request.prompts.emplace_back(node.string());
  } else if (is_list_of(raw, is_number)) {
    request.prompts.emplace_back(read_ids(node));
  } else if (is_list_of(raw, [](const nlohmann::json& v) { return v.is_string(); })) {
    for (const JsonNode& item : node.items()) request.prompts.emplace_back(item.string());
  } else if (is_list_of(raw, [&](const nlohmann::json& v) { return is_list_of(v, is_number); })) {
    for (const JsonNode& item : node.items()) request.prompts.emplace_back(read_ids(item));
  } else {
    node.fail_expected("a string, token ids, or an array of either, not empty");
  }
}

uint32_t read_top(const JsonNode& node) {
  return static_cast<uint32_t>(read_integer(node, 0, mkrt::kMaxTop));
}

constexpr Field kCompletionFields[] = {
    {"prompt", read_prompt},
    {"echo", [](const JsonNode& node, ApiRequest& r) { r.echo = node.boolean(); }},
    {"logprobs", [](const JsonNode& node, ApiRequest& r) { r.logprobs = read_top(node); }},
};

constexpr Field kTemplateFields[] = {
    {"add_generation_prompt",
     [](const JsonNode& node, ApiRequest& r) { chat_of(r).add_generation_prompt = node.boolean(); }},
    {"continue_final_message",
     [](const JsonNode& node, ApiRequest& r) { chat_of(r).continue_final_message = node.boolean(); }},
    {"reasoning_effort",
     [](const JsonNode& node, ApiRequest& r) { chat_of(r).reasoning_effort = read_reasoning_effort(node); }},
    // The functions that read a body take these two from a text that keeps the order of keys.
    {"messages", [](const JsonNode& node, ApiRequest&) { check_messages(node); }},
    {"chat_template_kwargs", [](const JsonNode& node, ApiRequest&) { check_template_variables(node); }},
};

// The reading of a body goes by name, so that "logprobs" comes before "top_logprobs".
constexpr Field kChatFields[] = {
    {"max_completion_tokens", read_max_completion_tokens},
    {"logprobs",
     [](const JsonNode& node, ApiRequest& r) {
       if (node.boolean()) r.logprobs = 0;
     }},
    {"top_logprobs",
     [](const JsonNode& node, ApiRequest& r) {
       const uint32_t top = read_top(node);
       if (top > 0 && !r.logprobs) node.fail("is for logprobs true, expected 0 or logprobs");
       if (r.logprobs) r.logprobs = top;
     }},
};

ApiError missing(const char* field, const char* expected) {
  return {.message = fmt::format("{}: is missing, expected {}", field, expected), .param = field};
}

std::optional<ApiError> check_chat(const ApiRequest& request) {
  const std::optional<std::string>& effort = request.chat->reasoning_effort;
  if (effort && request.chat->variables.at("reasoning_effort") != *effort)
    return ApiError{
        .message = fmt::format("reasoning_effort: found \"{}\", expected {}, as in chat_template_kwargs",
                               *effort, request.chat->variables.at("reasoning_effort").dump()),
        .param = "reasoning_effort"};
  if (request.chat->add_generation_prompt && request.chat->continue_final_message)
    return ApiError{.message =
                        "continue_final_message: found true with add_generation_prompt, expected one of "
                        "them",
                    .param = "continue_final_message"};
  return {};
}

// Takes the inputs of the template, in the order of their keys, and checks them. The body is known to be
// valid.
std::optional<ApiError> take_chat(const std::string& body, ApiRequest& request) {
  if (std::string fault = mkrt::wide_integer_fault(body); !fault.empty())
    return ApiError{.message = std::move(fault)};
  nlohmann::ordered_json whole = nlohmann::ordered_json::parse(body);
  ChatFields& chat = chat_of(request);
  chat.messages = plain_messages(std::move(whole["messages"]));
  if (const auto given = whole.find("chat_template_kwargs"); given != whole.end() && given->is_object())
    chat.variables = std::move(*given);
  if (chat.reasoning_effort) chat.variables.emplace("reasoning_effort", *chat.reasoning_effort);
  return check_chat(request);
}

bool is_given(const nlohmann::json& body, const char* field) {
  const auto found = body.find(field);
  return found != body.end() && !found->is_null();
}

}  // namespace

std::optional<ApiError> read_chat_completion(const std::string& text, ApiRequest& request) {
  nlohmann::json body;
  if (auto error = parse_body(text, body)) return error;
  chat_of(request);
  if (auto error =
          read_fields(body, {generation_fields(), kChatFields, kTemplateFields}, refused_fields(), request))
    return error;
  if (!is_given(body, "messages")) return missing("messages", "an array of messages");
  return take_chat(text, request);
}

std::optional<ApiError> read_completion(const std::string& text, ApiRequest& request) {
  nlohmann::json body;
  if (auto error = parse_body(text, body)) return error;
  if (auto error = read_fields(body, {generation_fields(), kCompletionFields}, refused_fields(), request))
    return error;
  if (request.prompts.empty()) return missing("prompt", "a string, token ids, or an array of either");
  return {};
}

std::optional<ApiError> read_tokenize(const std::string& text, ApiRequest& request) {
  static constexpr Field kFields[] = {
      {"model", [](const JsonNode& node, ApiRequest& r) { r.model = node.string(); }},
      {"prompt", [](const JsonNode& node, ApiRequest& r) { r.prompts.emplace_back(node.string()); }},
      {"add_special_tokens",
       [](const JsonNode& node, ApiRequest& r) { r.add_special_tokens = node.boolean(); }},
  };
  nlohmann::json body;
  if (auto error = parse_body(text, body)) return error;
  const bool is_chat = is_given(body, "messages");
  if (is_chat) chat_of(request);
  auto error = is_chat ? read_fields(body, {kFields, kTemplateFields}, {}, request)
                       : read_fields(body, {kFields}, {}, request);
  if (error) return error;
  if (is_chat == !request.prompts.empty())
    return ApiError{.message = fmt::format("prompt: found {} of prompt and messages, expected one of them",
                                           is_chat ? "both" : "neither"),
                    .param = "prompt"};
  if (!is_chat) return {};
  return take_chat(text, request);
}

std::optional<ApiError> read_detokenize(const std::string& text, ApiRequest& request) {
  static constexpr Field kFields[] = {
      {"model", [](const JsonNode& node, ApiRequest& r) { r.model = node.string(); }},
      {"tokens", [](const JsonNode& node, ApiRequest& r) { r.prompts.emplace_back(read_ids(node)); }},
  };
  nlohmann::json body;
  if (auto error = parse_body(text, body)) return error;
  if (auto error = read_fields(body, {kFields}, {}, request)) return error;
  if (request.prompts.empty()) return missing("tokens", "an array of token ids");
  return {};
}

}  // namespace mkc
