#include <fmt/format.h>

#include <limits>

#include "tools/logit_bias.h"
#include "tools/serve/fields.h"

namespace mkc {
namespace {

using mkrt::JsonNode;
using nlohmann::json;

constexpr uint32_t kMaxNewTokens = 1u << 30;
constexpr uint32_t kMaxChoices = 128;
constexpr size_t kMaxStops = 4;
constexpr size_t kMaxStopBytes = 1024;
constexpr double kMaxBias = 100;  // as OpenAI's API has it

void read_float(const JsonNode& node, double min, double max, std::optional<float>& value) {
  value = static_cast<float>(read_number(node, min, max));
}

// Reads a share above 0. A share so small that f32 rounds it to 0 is refused, too.
void read_top_p(const JsonNode& node, ApiRequest& request) {
  constexpr double kSmallest = std::numeric_limits<float>::min();
  const bool below = node.raw().is_number() && node.raw().get<double>() < kSmallest;
  if (below) return node.fail_expected("a number above 0, at most 1");
  read_float(node, kSmallest, 1, request.sampling.top_p);
}

void read_max_tokens(const JsonNode& node, ApiRequest& request) {
  // "echo" has been read before, because fields are read in the order of their names.
  const auto found = static_cast<uint32_t>(read_integer(node, request.echo ? 0 : 1, kMaxNewTokens));
  if (request.max_tokens && *request.max_tokens != found)
    return node.fail_expected(
        fmt::format("{}, as in the other of max_tokens and max_completion_tokens", *request.max_tokens));
  request.max_tokens = found;
}

void read_seed(const JsonNode& node, ApiRequest& request) {
  const json& raw = node.raw();
  if (!raw.is_number_integer()) return node.fail_expected("an integer from -2^63 to 2^64 - 1");
  request.sampling.seed =
      raw.is_number_unsigned() ? raw.get<uint64_t>() : static_cast<uint64_t>(raw.get<int64_t>());
}

void read_stop(const JsonNode& node, ApiRequest& request) {
  const auto add = [&](const JsonNode& item) {
    std::string text = item.string();
    if (text.empty() || text.size() > kMaxStopBytes)
      return item.fail_expected(fmt::format("a string of 1 to {} bytes", kMaxStopBytes));
    request.stop.push_back(std::move(text));
  };
  if (node.raw().is_string()) return add(node);
  if (!node.raw().is_array() || node.raw().size() > kMaxStops)
    return node.fail_expected(fmt::format("a string, or an array of at most {} strings", kMaxStops));
  for (const JsonNode& item : node.items()) add(item);
}

void read_top_k(const JsonNode& node, ApiRequest& request) {
  // -1 is another spelling of 0, all tokens.
  request.sampling.top_k = static_cast<uint32_t>(std::max<int64_t>(0, read_integer(node, -1, UINT32_MAX)));
}

void read_stream_options(const JsonNode& node, ApiRequest& request) {
  // "stream" has been read before, because fields are read in the order of their names.
  if (!request.stream) return node.fail("is for stream true, expected null");
  node.allow_keys({"include_usage", "include_obfuscation"});
  if (node.failed()) return;
  request.include_usage = node.optional("include_usage").boolean_or(false);
  const JsonNode padding = node.optional("include_obfuscation");
  if (padding.boolean_or(false)) padding.fail_expected("false");
}

constexpr Field kFields[] = {
    {"model", [](const JsonNode& node, ApiRequest& r) { r.model = node.string(); }},
    {"max_tokens", read_max_tokens},
    {"n", [](const JsonNode& node,
             ApiRequest& r) { r.n = static_cast<uint32_t>(read_integer(node, 1, kMaxChoices)); }},
    {"temperature",
     [](const JsonNode& node, ApiRequest& r) { read_float(node, 0, 1e6, r.sampling.temperature); }},
    {"top_p", read_top_p},
    {"top_k", read_top_k},
    {"min_p", [](const JsonNode& node, ApiRequest& r) { read_float(node, 0, 1, r.sampling.min_p); }},
    {"repetition_penalty",
     [](const JsonNode& node, ApiRequest& r) {
       read_float(node, 0.001, 1000, r.sampling.repetition_penalty);
     }},
    {"seed", read_seed},
    {"logit_bias",
     [](const JsonNode& node, ApiRequest& r) { r.bias.logit_bias = read_logit_bias(node, kMaxBias); }},
    {"presence_penalty",
     [](const JsonNode& node, ApiRequest& r) {
       r.bias.presence_penalty = static_cast<float>(read_number(node, -2, 2));
     }},
    {"frequency_penalty",
     [](const JsonNode& node, ApiRequest& r) {
       r.bias.frequency_penalty = static_cast<float>(read_number(node, -2, 2));
     }},
    {"min_tokens",
     [](const JsonNode& node, ApiRequest& r) {
       r.bias.min_new_tokens = static_cast<uint32_t>(read_integer(node, 0, kMaxNewTokens));
     }},
    {"allowed_token_ids",
     [](const JsonNode& node, ApiRequest& r) { r.bias.allowed_ids = read_allowed_ids(node); }},
    {"stop", read_stop},
    {"stop_token_ids", [](const JsonNode& node, ApiRequest& r) { r.stop_token_ids = read_stop_ids(node); }},
    {"include_stop_str_in_output",
     [](const JsonNode& node, ApiRequest& r) { r.include_stop_str_in_output = node.boolean(); }},
    {"ignore_eos", [](const JsonNode& node, ApiRequest& r) { r.ignore_eos = node.boolean(); }},
    {"skip_special_tokens",
     [](const JsonNode& node, ApiRequest& r) { r.skip_special_tokens = node.boolean(); }},
    {"add_special_tokens",
     [](const JsonNode& node, ApiRequest& r) { r.add_special_tokens = node.boolean(); }},
    {"priority",
     [](const JsonNode& node, ApiRequest& r) {
       r.priority = static_cast<int32_t>(read_integer(node, INT32_MIN, INT32_MAX));
     }},
    {"stream", [](const JsonNode& node, ApiRequest& r) { r.stream = node.boolean(); }},
    {"stream_options", read_stream_options},
    // These fields of OpenAI's API say whose a request is, and change nothing.
    {"user", [](const JsonNode& node, ApiRequest&) { (void)node.string(); }},
    {"safety_identifier", [](const JsonNode& node, ApiRequest&) { (void)node.string(); }},
    {"prompt_cache_key", [](const JsonNode& node, ApiRequest&) { (void)node.string(); }},
};

bool is_empty(const json& value) {
  return value.is_string() ? value.get_ref<const std::string&>().empty()
                           : value.is_structured() && value.empty();
}
bool is_false(const json& value) {
  return value == false;
}
bool is_one(const json& value) {
  return value.is_number() && value == 1;
}
bool is_nothing(const json&) {
  return false;
}
bool is_boolean(const json& value) {
  return value.is_boolean();
}

constexpr RefusedField kRefused[] = {
    {"tools", is_empty, "an empty array"},
    {"tool_choice", [](const json& v) { return v == "none" || v == "auto"; }, "\"none\" or \"auto\""},
    {"parallel_tool_calls", is_boolean, "true or false"},
    {"functions", is_empty, "an empty array"},
    {"function_call", [](const json& v) { return v == "none" || v == "auto"; }, "\"none\" or \"auto\""},
    {"response_format", [](const json& v) { return v == json{{"type", "text"}}; }, R"({"type":"text"})"},
    {"reasoning_effort", is_nothing, "null"},
    {"thinking_token_budget", is_nothing, "null"},
    {"verbosity", is_nothing, "null"},
    {"modalities", [](const json& v) { return v == json{"text"}; }, R"(["text"])"},
    {"audio", is_nothing, "null"},
    {"prediction", is_nothing, "null"},
    {"web_search_options", is_nothing, "null"},
    {"metadata", is_empty, "an empty object"},
    {"store", is_false, "false"},
    {"service_tier", [](const json& v) { return v == "auto" || v == "default"; }, "\"auto\" or \"default\""},
    {"best_of", is_one, "1"},
    {"suffix", is_empty, "an empty string"},
    {"prompt_logprobs", is_nothing, "null"},
    {"bad_words", is_empty, "an empty array"},
    {"use_beam_search", is_false, "false"},
    {"length_penalty", is_one, "1"},
    {"spaces_between_special_tokens", [](const json& v) { return v == true; }, "true"},
    {"truncate_prompt_tokens", is_nothing, "null"},
    {"chat_template", is_nothing, "null"},
    {"documents", is_empty, "an empty array"},
    {"mm_processor_kwargs", is_empty, "an empty object"},
    {"structured_outputs", is_nothing, "null"},
    {"guided_json", is_nothing, "null"},
    {"guided_regex", is_nothing, "null"},
    {"guided_choice", is_nothing, "null"},
    {"guided_grammar", is_nothing, "null"},
    {"return_token_ids", is_false, "false"},
    {"return_tokens_as_token_ids", is_false, "false"},
    {"kv_transfer_params", is_nothing, "null"},
    {"logits_processors", is_empty, "an empty array"},
};

}  // namespace

std::span<const Field> generation_fields() {
  return kFields;
}

std::span<const RefusedField> refused_fields() {
  return kRefused;
}

}  // namespace mkc
