#include "tools/batch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/base/file.h"
#include "runtime/base/json_text.h"
#include "tools/logit_bias.h"
#include "tools/logprobs.h"
#include "tools/token_text.h"

namespace mkc {
namespace {

using mkrt::Error;
using mkrt::Result;
using mkrt::Status;

constexpr int32_t kMax = std::numeric_limits<int32_t>::max();

// The read() functions set `value` from an optional key. An absent key leaves `value` as it is.
void read(const mkrt::JsonNode& node, float& value) {
  if (node.is_null()) return;
  if (!node.raw().is_number()) return node.fail_expected("a number");
  constexpr double kLargest = std::numeric_limits<float>::max();
  value = static_cast<float>(std::clamp(node.raw().get<double>(), -kLargest, kLargest));
}

void read(const mkrt::JsonNode& node, uint32_t& value, int32_t max = kMax) {
  if (!node.is_null()) value = static_cast<uint32_t>(node.integer(max));
}

void read(const mkrt::JsonNode& node, uint64_t& value) {
  if (node.is_null()) return;
  if (!node.raw().is_number_unsigned()) return node.fail_expected("an integer from 0 to 2^64 - 1");
  value = node.raw().get<uint64_t>();
}

void read_sampling(const mkrt::JsonNode& node, mkrt::MkSampling& sampling) {
  read(node.optional("temperature"), sampling.temperature);
  read(node.optional("top_k"), sampling.top_k);
  read(node.optional("top_p"), sampling.top_p);
  read(node.optional("min_p"), sampling.min_p);
  read(node.optional("repetition_penalty"), sampling.repetition_penalty);
  read(node.optional("seed"), sampling.seed);
  const mkrt::JsonNode logprobs = node.optional("logprobs");
  if (!logprobs.is_null()) sampling.logprobs = 1 + static_cast<uint32_t>(logprobs.integer(mkrt::kMaxTop));
}

void read_bias(const mkrt::JsonNode& node, mkrt::BiasSettings& bias) {
  if (const mkrt::JsonNode biases = node.optional("logit_bias"); !biases.is_null())
    bias.logit_bias = read_logit_bias(biases, double{mkrt::kMaxBias});
  read(node.optional("presence_penalty"), bias.presence_penalty);
  read(node.optional("frequency_penalty"), bias.frequency_penalty);
  read(node.optional("min_tokens"), bias.min_new_tokens);
}

Result<BatchLine> parse_line(std::string_view text, const std::string& name, const BatchDefaults& defaults) {
  const Result<nlohmann::json> document = mkrt::parse_json_text(text, name);
  if (!document.ok()) return document.error();
  Status status;
  const mkrt::JsonNode node(document.value(), name, status);
  node.allow_keys({"prompt", "prompt_ids", "max_new_tokens", "arrive_at_step", "temperature", "top_k",
                   "top_p", "min_p", "repetition_penalty", "seed", "logprobs", "logit_bias",
                   "presence_penalty", "frequency_penalty", "min_tokens"});
  if (node.failed()) return status.error();
  const mkrt::JsonNode prompt = node.optional("prompt"), ids = node.optional("prompt_ids");
  if (prompt.is_null() == ids.is_null())
    node.fail(fmt::format("found {} of the keys prompt and prompt_ids, expected one of them",
                          prompt.is_null() ? "neither" : "both"));
  BatchLine line;
  mkrt::Request& request = line.request;
  request.name = name;
  if (!prompt.is_null()) line.prompt = prompt.string();
  if (!ids.is_null())
    for (const mkrt::JsonNode& id : ids.items()) request.prompt.push_back(id.integer(kMax));
  request.max_new_tokens = defaults.max_new_tokens;
  read(node.optional("max_new_tokens"), request.max_new_tokens);
  read(node.optional("arrive_at_step"), request.arrive_at_step);
  request.sampling = defaults.sampling;
  read_sampling(node, request.sampling);
  read_bias(node, request.bias);
  if (node.failed()) return status.error();
  return line;
}

// Returns the request with its prompt as ids. Errors: a text prompt without a tokenizer, or one that cannot
// be encoded.
Result<mkrt::Request> request_of(const BatchLine& line, const BatchOptions& options) {
  mkrt::Request request = line.request;
  if (!line.prompt) return request;
  const std::string where = request.name + ": error: prompt: ";
  if (!options.tokenizer) return Error{where + "found text, expected prompt_ids: there is no tokenizer.json"};
  Result<std::vector<int32_t>> ids = mkrt::encode(*options.tokenizer, *line.prompt, options.add_special);
  if (!ids.ok()) return Error{where + ids.error().message};
  request.prompt = std::move(ids.value());
  return request;
}

std::string answer(const mkrt::Outcome& outcome, const BatchOptions& options) {
  nlohmann::json object{{"new_ids", outcome.new_ids},
                        {"text", nullptr},
                        {"finish_reason", mkrt::finish_reason_name(outcome.reason)},
                        {"cached_tokens", outcome.cached_tokens}};
  if (outcome.reason == mkrt::FinishReason::kError) object["error"] = outcome.error;
  if (!outcome.samples.empty()) object["logprobs"] = logprobs_json(outcome.samples);
  if (options.tokenizer) object["text"] = text_of(*options.tokenizer, outcome.new_ids);
  // Error messages may quote bytes of a line that are not UTF-8.
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::vector<Result<BatchLine>> parse_batch_file(std::string_view text, const std::string& file,
                                                const BatchDefaults& defaults) {
  std::vector<Result<BatchLine>> lines;
  for (size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.find_first_not_of(" \t\r") != line.npos)
      lines.push_back(parse_line(line, fmt::format("{}:{}", file, number), defaults));
    begin = end + 1;
  }
  return lines;
}

Result<std::vector<Result<BatchLine>>> read_batch_file(const std::string& path,
                                                       const BatchDefaults& defaults) {
  const Result<mkrt::MappedFile> file = mkrt::map_file(path);
  if (!file.ok()) return file.error();
  const auto bytes = file.value().bytes;
  std::vector<Result<BatchLine>> lines =
      parse_batch_file({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, defaults);
  if (lines.empty()) return Error{path + ": error: found no requests, expected at least one line"};
  return lines;
}

BatchAnswers answer_batch(const std::vector<Result<BatchLine>>& lines, mkrt::Engine& engine,
                          const BatchOptions& options) {
  BatchAnswers answers;
  answers.objects.resize(lines.size());
  std::map<uint64_t, size_t> line_of;  // index in `lines`, by request id
  for (size_t i = 0; i < lines.size(); ++i) {
    Result<mkrt::Request> request = lines[i].ok() ? request_of(lines[i].value(), options) : lines[i].error();
    if (request.ok())
      line_of[engine.submit(std::move(request.value()))] = i;
    else
      answers.objects[i] = answer({.new_ids = {}, .samples = {}, .error = request.error().message}, options);
  }
  while (!engine.idle() && answers.fault.ok()) answers.fault = engine.step();
  for (const mkrt::Outcome& outcome : engine.take_outcomes()) {
    const size_t i = line_of.at(outcome.id);
    answers.objects[i] = answer(outcome, options);
  }
  return answers;
}

}  // namespace mkc
