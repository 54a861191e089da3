#include "tools/batch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <span>

#include "runtime/base/file.h"
#include "runtime/base/json_text.h"
#include "tools/chat_messages.h"
#include "tools/logit_bias.h"
#include "tools/logprobs.h"
#include "tools/output.h"
#include "tools/serve/fields.h"
#include "tools/token_text.h"

namespace mkc {
namespace {

using mkrt::Error;
using mkrt::Result;
using mkrt::Status;

constexpr int32_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr int kBlanksAtOnce = 1000;    // blank lines of a call that does not wait
constexpr uint32_t kMaxWaiting = 256;  // requests of a pipe that have been read and do not run

// The read_field() functions set `value` from an optional key. An absent key leaves `value` as it is.
void read_field(const mkrt::JsonNode& node, float& value) {
  if (node.is_null()) return;
  if (!node.raw().is_number()) return node.fail_expected("a number");
  constexpr double kLargest = std::numeric_limits<float>::max();
  value = static_cast<float>(std::clamp(node.raw().get<double>(), -kLargest, kLargest));
}

void read_field(const mkrt::JsonNode& node, uint32_t& value, int32_t max = kMaxInt32) {
  if (!node.is_null()) value = static_cast<uint32_t>(node.integer(max));
}

void read_field(const mkrt::JsonNode& node, uint64_t& value) {
  if (node.is_null()) return;
  if (!node.raw().is_number_unsigned()) return node.fail_expected("an integer from 0 to 2^64 - 1");
  value = node.raw().get<uint64_t>();
}

void read_sampling(const mkrt::JsonNode& node, mkrt::MkSampling& sampling) {
  read_field(node.optional("temperature"), sampling.temperature);
  read_field(node.optional("top_k"), sampling.top_k);
  read_field(node.optional("top_p"), sampling.top_p);
  read_field(node.optional("min_p"), sampling.min_p);
  read_field(node.optional("repetition_penalty"), sampling.repetition_penalty);
  read_field(node.optional("seed"), sampling.seed);
  const mkrt::JsonNode logprobs = node.optional("logprobs");
  if (!logprobs.is_null()) sampling.logprobs = 1 + static_cast<uint32_t>(logprobs.integer(mkrt::kMaxTop));
}

void read_bias(const mkrt::JsonNode& node, mkrt::BiasSettings& bias) {
  if (const mkrt::JsonNode biases = node.optional("logit_bias"); !biases.is_null())
    bias.logit_bias = read_logit_bias(biases, double{mkrt::kMaxBias});
  read_field(node.optional("presence_penalty"), bias.presence_penalty);
  read_field(node.optional("frequency_penalty"), bias.frequency_penalty);
  read_field(node.optional("min_tokens"), bias.min_new_tokens);
  if (const mkrt::JsonNode ids = node.optional("allowed_token_ids"); !ids.is_null())
    bias.allowed_ids = read_allowed_ids(ids);
}

// Reads what the engine does with the request.
void read_schedule(const mkrt::JsonNode& node, mkrt::Request& request) {
  read_field(node.optional("max_new_tokens"), request.max_new_tokens);
  read_field(node.optional("arrive_at_step"), request.arrive_at_step);
  if (const mkrt::JsonNode priority = node.optional("priority"); !priority.is_null())
    request.priority = static_cast<int32_t>(read_integer(priority, INT32_MIN, INT32_MAX));
  if (const mkrt::JsonNode ids = node.optional("stop_token_ids"); !ids.is_null())
    request.stop_ids = read_stop_ids(ids);
}

// Reads the one of prompt, prompt_ids and messages that the line has. `text` is the line.
void read_input(const mkrt::JsonNode& node, std::string_view text, BatchLine& line) {
  const mkrt::JsonNode prompt = node.optional("prompt"), ids = node.optional("prompt_ids"),
                       messages = node.optional("messages");
  const int given = !prompt.is_null() + !ids.is_null() + !messages.is_null();
  if (given != 1)
    return node.fail(fmt::format("found {} of the keys prompt, prompt_ids and messages, expected one of them",
                                 given == 0   ? "none"
                                 : given == 2 ? "two"
                                              : "all"));
  if (!prompt.is_null()) line.prompt = prompt.string();
  if (!ids.is_null())
    for (const mkrt::JsonNode& id : ids.items()) line.request.prompt.push_back(id.integer(kMaxInt32));
  if (messages.is_null()) return;
  check_messages(messages);
  if (const std::string fault = mkrt::wide_integer_fault(text); !fault.empty()) return node.fail(fault);
  // Templates see the keys of a message in their order.
  if (!node.failed())
    line.messages = plain_messages(std::move(nlohmann::ordered_json::parse(text)["messages"]));
}

Result<BatchLine> parse_line(std::string_view text, const std::string& name, const BatchDefaults& defaults) {
  const Result<nlohmann::json> document = mkrt::parse_json_text(text, name);
  if (!document.ok()) return document.error();
  Status status;
  const mkrt::JsonNode node(document.value(), name, status);
  node.allow_keys({"prompt", "prompt_ids", "messages", "max_new_tokens", "arrive_at_step", "priority",
                   "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed", "logprobs",
                   "logit_bias", "presence_penalty", "frequency_penalty", "min_tokens", "allowed_token_ids",
                   "stop_token_ids"});
  if (node.failed()) return status.error();
  BatchLine line;
  mkrt::Request& request = line.request;
  request.name = name;
  read_input(node, text, line);
  request.max_new_tokens = defaults.max_new_tokens;
  read_schedule(node, request);
  request.sampling = defaults.sampling;
  read_sampling(node, request.sampling);
  read_bias(node, request.bias);
  if (node.failed()) return status.error();
  return line;
}

// Returns the request with its prompt as ids. Errors: text without a tokenizer, or text that cannot be
// encoded; messages without a chat template, or messages that it refuses.
Result<mkrt::Request> request_of(const BatchLine& line, const BatchOptions& options) {
  mkrt::Request request = line.request;
  if (!line.prompt && !line.messages) return request;
  const std::string at = request.name + ": error: ", where = at + (line.prompt ? "prompt: " : "messages: ");
  if (!options.tokenizer) return Error{where + "found text, expected prompt_ids: there is no tokenizer.json"};
  if (line.messages && !options.render_chat)
    return Error{where + "found a chat, expected a prompt: there is no chat template"};
  Result<std::vector<int32_t>> ids = line.prompt
                                         ? mkrt::encode(*options.tokenizer, *line.prompt, options.add_special)
                                         : chat_ids(options.render_chat, *options.tokenizer, *line.messages);
  if (!ids.ok()) {
    const std::string& message = ids.error().message;
    return Error{(line.messages && !refused_variable(message, {}).empty() ? at : where) + message};
  }
  request.prompt = std::move(ids.value());
  return request;
}

// Pending is a line whose request runs.
struct Pending {
  size_t line = 0;
  std::optional<TokenText> text;  // behind the prompt; nothing: there is no tokenizer
};

// A line with messages gets a message, which is a text of its own. Any other answer goes on with its prompt.
Pending pending_of(size_t number, std::span<const int32_t> prompt, const BatchOptions& options) {
  if (!options.tokenizer) return {number, {}};
  return {number, text_after(*options.tokenizer, prompt)};
}

std::string answer(const Pending& pending, const mkrt::Outcome& outcome) {
  nlohmann::json object{{"line", pending.line},
                        {"new_ids", outcome.new_ids},
                        {"text", nullptr},
                        {"finish_reason", mkrt::finish_reason_name(outcome.reason)},
                        {"cached_tokens", outcome.cached_tokens}};
  if (outcome.reason == mkrt::FinishReason::kError) object["error"] = outcome.error;
  if (!outcome.samples.empty()) object["logprobs"] = logprobs_json(outcome.samples);
  if (pending.text) object["text"] = text_of(*pending.text, outcome.new_ids);
  // Error messages may quote bytes of a line that are not UTF-8.
  return json_text(object);
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == line.npos;
}

NumberedLine numbered(size_t number, std::string_view line, const std::string& file,
                      const BatchDefaults& defaults) {
  return {number, parse_line(line, fmt::format("{}:{}", file, number), defaults)};
}

Error no_requests(const std::string& name) {
  return {name + ": error: found no requests, expected at least one line"};
}

}  // namespace

std::vector<NumberedLine> parse_batch_file(std::string_view text, const std::string& file,
                                           const BatchDefaults& defaults) {
  std::vector<NumberedLine> lines;
  for (size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (!is_blank(line)) lines.push_back(numbered(number, line, file, defaults));
    begin = end + 1;
  }
  return lines;
}

BatchSource BatchSource::of_text(std::string_view text, const std::string& file,
                                 const BatchDefaults& defaults) {
  BatchSource source;
  std::ranges::move(parse_batch_file(text, file, defaults), std::back_inserter(source.lines_));
  return source;
}

Result<BatchSource> BatchSource::open(const std::string& path, const BatchDefaults& defaults) {
  std::error_code ignored;
  const std::filesystem::file_status found = std::filesystem::status(path, ignored);
  const bool is_pipe = std::filesystem::is_fifo(found) || std::filesystem::is_character_file(found);
  if (path != "-" && !is_pipe) {
    const Result<mkrt::MappedFile> file = mkrt::map_file(path);
    if (!file.ok()) return file.error();
    const auto bytes = file.value().bytes;
    BatchSource source = of_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, defaults);
    if (source.lines_.empty()) return no_requests(path);
    return source;
  }
  BatchSource source;
  source.name_ = path == "-" ? "standard input" : path;
  source.defaults_ = defaults;
  const int descriptor = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return Error{fmt::format("{}: error: cannot be opened: {}", path, std::strerror(errno))};
  source.stream_.emplace(descriptor, source.name_);  // stays open until the process ends
  return source;
}

Result<std::optional<NumberedLine>> BatchSource::next(bool wait) {
  std::optional<NumberedLine> next;
  if (!stream_) {
    if (lines_.empty()) return next;
    next = std::move(lines_.front());
    lines_.pop_front();
  }
  int blanks = 0;
  while (!next && stream_) {
    const Result<std::optional<std::string>> line = stream_->next(wait);
    if (!line.ok() && stream_->failed()) return line.error();
    if (!line.ok()) {
      next = {stream_->number(), line.error()};
      break;
    }
    if (!line.value() && stream_->at_end() && taken_ == 0) return no_requests(name_);
    if (!line.value()) return next;
    if (!is_blank(*line.value()))
      next = numbered(stream_->number(), *line.value(), name_, defaults_);
    else if (!wait && ++blanks == kBlanksAtOnce)
      return next;
  }
  ++taken_;
  return next;
}

Status answer_batch(BatchSource& source, mkrt::Engine& engine, const BatchOptions& options,
                    const PutAnswer& put) {
  std::map<uint64_t, Pending> pending;  // by request id
  const auto put_finished = [&]() -> Status {
    for (const mkrt::Outcome& outcome : engine.take_outcomes())
      if (Status status = put(answer(pending.extract(outcome.id).mapped(), outcome)); !status.ok())
        return status;
    return {};
  };
  Status source_status;  // no line is taken after an error
  while (!engine.idle() || (source_status.ok() && !source.at_end())) {
    // A pipe that never ends must not keep its requests from running.
    const bool is_full = source.is_stream() && engine.stats().waiting >= kMaxWaiting;
    Result<std::optional<NumberedLine>> next = std::optional<NumberedLine>();
    if (!is_full && source_status.ok()) next = source.next(engine.idle());
    if (!next.ok()) {
      source_status = next.error();
      continue;
    }
    Status status;
    if (next.value()) {
      const auto& [number, line] = *next.value();
      Result<mkrt::Request> request = line.ok() ? request_of(line.value(), options) : line.error();
      if (request.ok()) {
        const std::span<const int32_t> prompt = request.value().prompt;
        Pending of = pending_of(number, line.value().messages ? prompt.first(0) : prompt, options);
        pending.emplace(engine.submit(std::move(request.value())), std::move(of));
      } else {
        status = put(answer(pending_of(number, {}, options),
                            {.new_ids = {}, .samples = {}, .error = request.error().message}));
      }
    } else {
      status = engine.step();
    }
    if (Status written = put_finished(); status.ok()) status = written;
    if (!status.ok()) return status;
  }
  return source_status;
}

}  // namespace mkc
