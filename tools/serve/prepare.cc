#include "tools/serve/prepare.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/session/sample.h"
#include "runtime/text/jinja/text.h"

namespace mkc {
namespace {

constexpr uint32_t kCompletionTokens = 16;  // new tokens of a completion that gives no number

ApiError wrong(const std::string& param, const std::string& message) {
  return {.message = fmt::format("{}: {}", param, message), .param = param};
}

// kMark stands behind the last message while a template renders a chat that the model goes on with. The
// template keeps the space at its end where it keeps that of messages.
constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_MARK ";

// Puts the mark behind the last message. `text` receives what stands before the mark.
std::optional<ApiError> mark_last_message(nlohmann::ordered_json& messages, std::string& text) {
  nlohmann::ordered_json& content = messages.back()["content"];
  if (!content.is_string())
    return wrong("continue_final_message", "found a last message without content, expected text");
  text = content.get<std::string>();
  content = text + std::string(kMark);
  return {};
}

// Cuts a rendered chat at the mark, as transformers does. A template that trims messages leaves no space
// before the mark either.
std::optional<ApiError> cut_at_mark(const std::string& message, std::string& text) {
  const size_t at = text.rfind(kMark.substr(0, kMark.size() - 1));
  if (at == text.npos || text.find(mkrt::jinja::strip(message)) == text.npos)
    return wrong("continue_final_message",
                 "the chat that the template renders does not hold the text of the last message, expected a "
                 "template that repeats it whole");
  const bool keeps_space = std::string_view(text).substr(at).starts_with(kMark);
  text.erase(at);
  if (!keeps_space) text.erase(text.size() - mkrt::jinja::trailing_spaces(text));
  return {};
}

// Returns the error of a template. One that names a variable is about that one, and else about the messages.
ApiError refused(const std::string& message, const nlohmann::ordered_json& variables) {
  const std::string variable = refused_variable(message, variables);
  if (variable.empty()) return wrong("messages", message);
  return {.message = message, .param = variable};
}

std::optional<ApiError> render(const ServedModel& model, const ChatFields& chat, std::string& text) {
  if (!model.render_chat)
    return wrong("messages", "the model has no chat template, expected a prompt for /v1/completions");
  nlohmann::ordered_json messages = chat.messages, variables = chat.variables;
  std::string last_message;
  if (chat.continue_final_message)
    if (std::optional<ApiError> error = mark_last_message(messages, last_message)) return error;
  variables["add_generation_prompt"] = chat.add_generation_prompt;
  mkrt::Result<std::string> rendered = model.render_chat(messages, variables);
  if (!rendered.ok()) return refused(rendered.error().message, variables);
  text = std::move(rendered.value());
  return chat.continue_final_message ? cut_at_mark(last_message, text) : std::nullopt;
}

std::optional<ApiError> check_ids(const std::string& param, std::span<const int32_t> ids, uint32_t vocab) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= vocab)
      return wrong(param, fmt::format("token {} has the id {}, expected 0 to {}", i, ids[i], vocab - 1));
  return {};
}

mkrt::MkSampling sampling_of(const ApiRequest& api, mkrt::MkSampling sampling, uint64_t fresh_seed) {
  const SamplingFields& s = api.sampling;
  sampling.temperature = s.temperature.value_or(sampling.temperature);
  sampling.top_k = s.top_k.value_or(sampling.top_k);
  sampling.top_p = s.top_p.value_or(sampling.top_p);
  sampling.min_p = s.min_p.value_or(sampling.min_p);
  sampling.repetition_penalty = s.repetition_penalty.value_or(sampling.repetition_penalty);
  sampling.seed = s.seed.value_or(fresh_seed);
  sampling.logprobs = api.logprobs ? 1 + *api.logprobs : 0;
  return sampling;
}

// Sets the most new tokens of a request. Without a number, a chat takes all positions that its prompt leaves.
std::optional<ApiError> set_length(const ServedModel& model, const ApiRequest& api, const std::string& param,
                                   mkrt::Request& request) {
  const uint64_t positions = model.positions(), prompt = request.prompt.size();
  const auto too_long = [&](const std::string& found) {
    ApiError error = wrong(param, fmt::format("found {}, expected at most {} positions", found, positions));
    error.code = "context_length_exceeded";
    return error;
  };
  if (prompt > positions) return too_long(fmt::format("{} tokens", prompt));
  const uint64_t left = positions - prompt + 1;  // the last new token is never fed
  const uint64_t usual = api.chat ? left : std::min<uint64_t>(left, kCompletionTokens);
  request.max_new_tokens = api.max_tokens.value_or(static_cast<uint32_t>(usual));
  // The engine samples at least one token. The answer to a request for none leaves it out.
  request.max_new_tokens = std::max(1u, request.max_new_tokens);
  if (request.max_new_tokens > left)
    return too_long(fmt::format("{} tokens and {} new ones, which need {} positions", prompt,
                                request.max_new_tokens, prompt + request.max_new_tokens - 1));
  return {};
}

mkrt::Request request_of(const ServedModel& model, const ApiRequest& api, uint64_t fresh_seed) {
  mkrt::Request request;
  request.sampling = sampling_of(api, model.sampling, fresh_seed);
  if (api.echo) request.prompt_logprobs = request.sampling.logprobs;
  request.prompt_only = api.max_tokens == 0u;
  request.bias = api.bias;
  request.stop_ids = api.stop_token_ids;
  request.ignore_engine_stops = api.ignore_eos;
  request.priority = api.priority;
  request.stream = true;  // the server looks for stop strings in every step
  return request;
}

// A new message of a chat is a text of its own. Any other answer goes on with the text of its prompt.
PromptText prompt_text(const ServedModel& model, const ApiRequest& api, std::span<const int32_t> ids) {
  PromptText text{.after = TokenText(model.tokenizer, api.skip_special_tokens), .first_id = ids[0]};
  if (api.chat && !api.chat->continue_final_message) return text;
  for (const int32_t id : ids) text.echo += text.after.add(id);
  if (api.echo) return text;
  text.after.leave_out_prompt();
  text.echo.clear();
  return text;
}

// Returns the error of a session's check, `FIELD: error: …`, in the words of the API.
ApiError api_error(std::string message) {
  std::string field = message.substr(0, message.find(':'));
  message.erase(0, message.find(": error: ") + std::string_view(": error: ").size());
  if (field == "min_new_tokens") field = "min_tokens";
  if (field == "allowed_ids") field = "allowed_token_ids";
  return wrong(field, message);
}

std::optional<ApiError> check_settings(const ServedModel& model, const mkrt::Request& request) {
  for (const int32_t id : request.stop_ids)
    if (static_cast<uint32_t>(id) >= model.limits.vocab)
      return wrong("stop_token_ids",
                   fmt::format("found the id {}, expected 0 to {}", id, model.limits.vocab - 1));
  std::vector<int32_t> end_ids = request.stop_ids;
  end_ids.insert(end_ids.end(), model.end_ids.begin(), model.end_ids.end());
  for (const mkrt::Status& status :
       {mkrt::check_sampling(request.sampling), mkrt::check_bias(request.bias, end_ids, model.limits.vocab)})
    if (!status.ok()) return api_error(status.error().message);
  return {};
}

}  // namespace

uint32_t positions_of_request(const mkrt::BatchLimits& limits) {
  return static_cast<uint32_t>(std::min<uint64_t>(limits.context, uint64_t{limits.pages} * limits.page_size));
}

std::optional<ApiError> check_model(const ServedModel& model, const ApiRequest& api) {
  if (!api.model || *api.model == model.name) return {};
  return ApiError{.status = 404,
                  .message = fmt::format("model: found \"{}\", expected \"{}\"", *api.model, model.name),
                  .param = "model",
                  .type = "not_found_error",
                  .code = "model_not_found"};
}

std::optional<ApiError> prompt_ids(const ServedModel& model, const ApiRequest& api, size_t prompt,
                                   std::vector<int32_t>& ids) {
  const std::string param = api.chat ? "messages" : "prompt";
  std::string text;
  if (api.chat) {
    if (std::optional<ApiError> error = render(model, *api.chat, text)) return error;
  } else if (const auto* given = std::get_if<std::vector<int32_t>>(&api.prompts[prompt])) {
    ids = *given;
    return check_ids(param, ids, model.limits.vocab);
  } else {
    text = std::get<std::string>(api.prompts[prompt]);
  }
  mkrt::Result<std::vector<int32_t>> encoded =
      api.chat ? encode_chat(model.tokenizer, text)
               : mkrt::encode(model.tokenizer, text, api.add_special_tokens);
  if (!encoded.ok()) return wrong(param, encoded.error().message);
  ids = std::move(encoded.value());
  return check_ids(param, ids, model.limits.vocab);
}

std::optional<ApiError> prepare(const ServedModel& model, uint64_t fresh_seed, PreparedRequest& prepared) {
  const ApiRequest& api = prepared.api;
  if (auto error = check_model(model, api)) return error;
  const mkrt::Request base = request_of(model, api, fresh_seed);
  if (auto error = check_settings(model, base)) return error;
  const size_t prompts = api.chat ? 1 : api.prompts.size();
  for (size_t p = 0; p < prompts; ++p) {
    mkrt::Request request = base;
    if (auto error = prompt_ids(model, api, p, request.prompt)) return error;
    const std::string param = api.chat ? "messages" : "prompt";
    if (request.prompt.empty()) return wrong(param, "found no tokens, expected at least one");
    if (auto error = set_length(model, api, param, request)) return error;
    prepared.prompt_tokens.push_back(static_cast<uint32_t>(request.prompt.size()));
    prepared.texts.push_back(prompt_text(model, api, request.prompt));
    for (uint32_t j = 0; j < api.n; ++j) {
      prepared.choices.push_back(request);
      prepared.choices.back().sampling.seed += j;
    }
  }
  return {};
}

}  // namespace mkc
