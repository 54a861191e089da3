#include "tools/batch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/file.h"
#include "runtime/json_text.h"

namespace mkc {
namespace {

using mkrt::Error;
using mkrt::Result;
using mkrt::Status;

constexpr int32_t kMost = std::numeric_limits<int32_t>::max();

Result<BatchLine> parse_line(std::string_view text, const std::string& name) {
  const Result<nlohmann::json> document = mkrt::parse_json_text(text, name);
  if (!document.ok()) return document.error();
  Status status;
  const mkrt::JsonNode node(document.value(), name, status);
  node.allow_keys({"prompt", "prompt_ids", "max_new_tokens", "arrive_at_step"});
  if (node.failed()) return status.error();
  const mkrt::JsonNode prompt = node.optional("prompt"), ids = node.optional("prompt_ids");
  if (prompt.is_null() == ids.is_null())
    node.fail(fmt::format("found {} of the keys prompt and prompt_ids, expected one of them",
                          prompt.is_null() ? "neither" : "both"));
  BatchLine line;
  line.name = name;
  if (!prompt.is_null()) line.prompt = prompt.string();
  if (!ids.is_null()) {
    line.ids.emplace();
    for (const mkrt::JsonNode& id : ids.items()) line.ids->push_back(id.integer(kMost));
  }
  const mkrt::JsonNode count = node.optional("max_new_tokens"), step = node.optional("arrive_at_step");
  if (!count.is_null()) line.max_new_tokens = static_cast<uint32_t>(count.integer(kMost));
  if (!step.is_null()) line.arrive_at_step = static_cast<uint64_t>(step.integer(kMost));
  if (node.failed()) return status.error();
  return line;
}

Result<mkrt::Request> request_of(const BatchLine& line, const BatchOptions& options) {
  mkrt::Request request;
  request.name = line.name;
  request.max_new_tokens = line.max_new_tokens.value_or(options.max_new_tokens);
  request.arrive_at_step = line.arrive_at_step;
  if (line.ids) {
    request.prompt = *line.ids;
    return request;
  }
  const std::string where = line.name + ": error: prompt: ";
  if (!options.tokenizer) return Error{where + "found text, expected prompt_ids: there is no tokenizer.json"};
  Result<std::vector<int32_t>> ids = mkrt::encode(*options.tokenizer, *line.prompt, options.add_special);
  if (!ids.ok()) return Error{where + ids.error().message};
  request.prompt = std::move(ids.value());
  return request;
}

std::string answer(const mkrt::Outcome& outcome, const BatchOptions& options, const std::string& name) {
  nlohmann::json object{{"new_ids", outcome.new_ids},
                        {"text", nullptr},
                        {"finish_reason", mkrt::finish_reason_name(outcome.reason)}};
  if (outcome.reason == mkrt::FinishReason::kError) object["error"] = outcome.error;
  if (options.tokenizer) {
    const Result<std::string> text = mkrt::decode(*options.tokenizer, outcome.new_ids, true);
    if (text.ok())
      object["text"] = text.value();
    else
      object["error"] = fmt::format("{}: error: text: {}", name, text.error().message);
  }
  // A message may quote bytes of a line that are no text.
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::vector<Result<BatchLine>> parse_batch_file(std::string_view text, const std::string& file) {
  std::vector<Result<BatchLine>> lines;
  for (size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.find_first_not_of(" \t\r") != line.npos)
      lines.push_back(parse_line(line, fmt::format("{}:{}", file, number)));
    begin = end + 1;
  }
  return lines;
}

Result<std::vector<Result<BatchLine>>> read_batch_file(const std::string& path) {
  const Result<mkrt::MappedFile> file = mkrt::map_file(path);
  if (!file.ok()) return file.error();
  const auto bytes = file.value().bytes;
  std::vector<Result<BatchLine>> lines =
      parse_batch_file({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  if (lines.empty()) return Error{path + ": error: found no requests, expected at least one line"};
  return lines;
}

BatchAnswers answer_batch(const std::vector<Result<BatchLine>>& lines, mkrt::Engine& engine,
                          const BatchOptions& options) {
  BatchAnswers answers;
  answers.objects.resize(lines.size());
  std::map<uint64_t, size_t> line_of;  // by the request's id
  for (size_t i = 0; i < lines.size(); ++i) {
    Result<mkrt::Request> request = lines[i].ok() ? request_of(lines[i].value(), options) : lines[i].error();
    if (request.ok())
      line_of[engine.submit(std::move(request.value()))] = i;
    else
      answers.objects[i] =
          answer({.new_ids = {}, .draws = {}, .error = request.error().message}, options, "");
  }
  while (!engine.idle() && answers.fault.ok()) answers.fault = engine.step();
  for (const mkrt::Outcome& outcome : engine.take_outcomes()) {
    const size_t i = line_of.at(outcome.id);
    answers.objects[i] = answer(outcome, options, lines[i].value().name);
  }
  return answers;
}

}  // namespace mkc
