#include "tools/serve/service.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/text/regex.h"
#include "tools/serve/authorisation.h"
#include "tools/serve/hosts.h"
#include "tools/serve/lower_case.h"
#include "tools/serve/model_object.h"
#include "tools/serve/preflight.h"
#include "tools/serve/replies.h"
#include "tools/serve/state_json.h"
#include "tools/serve/web_files.h"

namespace mkc {
namespace {

ApiError shutting_down() {
  return {.status = 503, .message = "the server is shutting down", .type = "overloaded_error"};
}

bool is_json(const std::string& content_type) {
  std::string kind = lower_case(content_type.substr(0, content_type.find(';')));
  kind.erase(kind.find_last_not_of(" \t") + 1);
  return kind == "application/json";
}

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::max(0.0, std::chrono::duration<double>(to - from).count());
}

// Answers with the object of the model that the path names.
void reply_model(const ExchangePtr& exchange, const ServedModel& model, std::string_view path) {
  ApiRequest api;
  api.model = model_id_of(path);
  if (auto error = check_model(model, api)) return reply_error(exchange, *error);
  reply_json(exchange, model_object(model));
}

// Runs the reading of a body. An exception, as for a lack of memory, ends only this request.
template <class Read>
std::optional<ApiError> guarded(const Read& read) {
  try {
    return read();
  } catch (const std::exception& e) {
    return ApiError{.status = 500,
                    .message = fmt::format("cannot read the body: {}", e.what()),
                    .type = "internal_error"};
  }
}

// Requests are copied for each choice, so that far too many would fill the memory.
std::optional<ApiError> check_choices(const ApiRequest& api, uint64_t room) {
  const uint64_t wanted = uint64_t{api.n} * (api.chat ? 1 : api.prompts.size());
  if (wanted <= room) return {};
  const char* const param = api.n > 1 ? "n" : "prompt";
  return ApiError{
      .message = fmt::format("{}: found {} choices of all prompts, expected at most {}", param, wanted, room),
      .param = param};
}

std::optional<ApiError> tokenize_body(const ServedModel& model, const std::string& body, Json& answer) {
  ApiRequest api;
  std::vector<int32_t> ids;
  if (auto error = read_tokenize(body, api)) return error;
  if (auto error = check_model(model, api)) return error;
  if (auto error = prompt_ids(model, api, 0, ids)) return error;
  answer = {{"count", ids.size()}, {"max_model_len", model.positions()}, {"tokens", ids}};
  return {};
}

std::optional<ApiError> detokenize_body(const ServedModel& model, const std::string& body, Json& answer) {
  ApiRequest api;
  if (auto error = read_detokenize(body, api)) return error;
  if (auto error = check_model(model, api)) return error;
  const auto text = mkrt::decode(model.tokenizer, std::get<std::vector<int32_t>>(api.prompts[0]), false);
  if (!text.ok()) return ApiError{.message = "tokens: " + text.error().message, .param = "tokens"};
  answer = {{"prompt", text.value()}};
  return {};
}

}  // namespace

// A Route that is not open asks for the API key. One that needs the model answers 503 until it is loaded.
struct Service::Route {
  std::string_view method, path;
  bool open, needs_model;
  void (*handle)(Service&, const ExchangePtr&, HttpRequest&&);
};

const std::vector<Service::Route>& Service::routes() {
  static const std::vector<Route> all = {
      {"GET", "/health", true, false, [](Service& s, const ExchangePtr& e, HttpRequest&&) { s.health(e); }},
      {"GET", "/version", true, false,
       [](Service& s, const ExchangePtr& e, HttpRequest&&) {
         reply_json(e, {{"version", s.options_.version}});
       }},
      {"GET", "/metrics", true, true,
       [](Service& s, const ExchangePtr& e, HttpRequest&&) {
         e->reply(
             {200, metrics_text(s.metrics_, s.model_->name), "text/plain; version=0.0.4; charset=utf-8"});
       }},
      {"GET", "/v1/models", false, true,
       [](Service& s, const ExchangePtr& e, HttpRequest&&) { reply_json(e, models_json(*s.model_)); }},
      {"POST", "/v1/chat/completions", false, true,
       [](Service& s, const ExchangePtr& e, HttpRequest&& r) { s.generate(e, std::move(r)); }},
      {"POST", "/v1/completions", false, true,
       [](Service& s, const ExchangePtr& e, HttpRequest&& r) { s.generate(e, std::move(r)); }},
      {"POST", "/tokenize", false, true,
       [](Service& s, const ExchangePtr& e, HttpRequest&& r) { s.tokenize(e, std::move(r)); }},
      {"POST", "/detokenize", false, true,
       [](Service& s, const ExchangePtr& e, HttpRequest&& r) { s.tokenize(e, std::move(r)); }},
      {"GET", "/debug/state", false, false,
       [](Service& s, const ExchangePtr& e, HttpRequest&&) { s.state(e); }},
      {"GET", "/debug/step", false, true,
       [](Service& s, const ExchangePtr& e, HttpRequest&&) { s.last_launch(e); }},
  };
  return all;
}

// Returns the route of a request, or null. `allowed` becomes the method of the path, if there is such a path.
const Service::Route* Service::find_route(const HttpRequest& request, std::string& allowed) {
  static const Route web_page = {"GET", "", true, false, [](Service&, const ExchangePtr& e, HttpRequest&& r) {
                                   reply_file(e, *find_web_file(r.path));
                                 }};
  static const Route model = {
      "GET", kModelPath, false, true,
      [](Service& s, const ExchangePtr& e, HttpRequest&& r) { reply_model(e, *s.model_, r.path); }};
  const auto known = std::ranges::find(routes(), request.path, &Route::path);
  const Route* route = known != routes().end()                ? &*known
                       : request.path.starts_with(kModelPath) ? &model
                       : find_web_file(request.path)          ? &web_page
                                                              : nullptr;
  if (route) allowed = route->method;
  return route && route->method == request.method ? route : nullptr;
}

Service::Service(HttpServer& server, EngineLoop& loop, ServiceOptions options)
    : server_(&server), loop_(&loop), options_(std::move(options)), seeds_(std::random_device{}()) {}

std::string Service::refusal(unsigned status, const std::string& message) {
  return error_json({.status = status,
                     .message = message,
                     .type = status < 500 ? "invalid_request_error" : "overloaded_error"});
}

void Service::handle(const ExchangePtr& exchange, HttpRequest request) {
  if (options_.own_hosts_only &&
      !is_own_host(request.host, options_.listening_host, options_.allowed_origins))
    return reply_error(exchange, host_error(request.host));
  std::string allowed;
  const Route* route = find_route(request, allowed);
  if (!route && allowed.empty())
    return reply_error(exchange,
                       {.status = 404,
                        .message = fmt::format("found no route {} {}", request.method, request.path),
                        .type = "not_found_error"});
  // Browsers give no API key with a preflight.
  if (is_preflight(options_.allowed_origins, request))
    return exchange->reply(preflight_reply(options_.allowed_origins, request, allowed));
  if (!route) {
    const ApiError error{.status = 405,
                         .message = fmt::format("found the method {}, expected {}", request.method, allowed)};
    return exchange->reply({405, error_json(error), "application/json", {{"Allow", allowed}}});
  }
  if (!route->open && !is_authorised(request.authorization, options_.api_key))
    return reply_error(exchange,
                       {.status = 401,
                        .message = "found no valid API key, expected the header Authorization: Bearer KEY",
                        .type = "authentication_error",
                        .code = "invalid_api_key"});
  if (route->needs_model && !model_)
    return reply_error(exchange,
                       {.status = 503, .message = "the model is still loading", .type = "overloaded_error"});
  if (request.method == "POST" && !is_json(request.content_type))
    return reply_error(exchange,
                       {.status = 415,
                        .message = fmt::format("found the content type \"{}\", expected application/json",
                                               request.content_type)});
  route->handle(*this, exchange, std::move(request));
}

const char* Service::status() const {
  const bool runs = !options_.device_runs || options_.device_runs();
  return !fault_.empty() ? "device_error"
         : !model_       ? "loading"
         : !runs         ? "restarting"
         : draining_     ? "draining"
                         : "ok";
}

void Service::health(const ExchangePtr& exchange) {
  const bool progresses = live_.empty() || options_.step_limit.count() == 0 ||
                          Clock::now() - std::max(last_report_, busy_since_) < options_.step_limit;
  const bool runs = !options_.device_runs || options_.device_runs();
  Json body{{"status", status()},
            {"steps", metrics_.engine.steps},
            {"requests", unfinished()},
            {"steps_make_progress", fault_.empty() && runs && progresses}};
  if (!fault_.empty()) body["error"] = fault_;
  exchange->reply({.status = std::string_view(status()) == "ok" ? 200u : 503u, .body = json_text(body)});
}

void Service::state(const ExchangePtr& exchange) {
  reply_json(exchange, {{"status", status()},
                        {"version", options_.version},
                        {"model", model_ ? model_json(*model_) : Json()},
                        {"figures", figures_json(metrics_)}});
}

void Service::last_launch(const ExchangePtr& exchange) {
  if (!model_->read_trace)
    return reply_error(exchange, {.status = 404,
                                  .message = "the kernel is not traced: start mkc serve with --trace-steps",
                                  .type = "not_found_error",
                                  .code = "not_traced"});
  loop_->between_launches([this, exchange = exchange, model = model_]() mutable {
    auto trace = std::make_shared<mkrt::Result<std::string>>(model->read_trace());
    // The exchange belongs to the server's thread, and ends there.
    server_->post([exchange = std::move(exchange), trace = std::move(trace)] {
      if (!trace->ok())
        return reply_error(exchange,
                           {.status = 500, .message = trace->error().message, .type = "device_error"});
      exchange->reply({.status = 200, .body = std::move(trace->value())});
    });
  });
}

// Returns how many choices may run and wait.
uint64_t Service::room_of(const ServedModel& model) const {
  return uint64_t{model.limits.max_requests} + options_.max_waiting;
}

std::optional<ApiError> Service::why_not_now() const {
  if (!fault_.empty()) return ApiError{.status = 500, .message = fault_, .type = "device_error"};
  if (draining_) return shutting_down();
  return {};
}

void Service::drain() {
  draining_ = true;
  server_->drain();
}

void Service::end_all() {
  ending_ = true;
  mkrt::MatchTime::end_all();  // bodies that are being read
  for (auto& [key, live] : live_) live.generation->fail(shutting_down());
  for (const Unread& unread : unread_) unread.generation->fail(shutting_down());
}

void Service::reply_unread(const ExchangePtr& exchange, const ApiError& error) const {
  reply_error(exchange, ending_ ? shutting_down() : error);
}

void Service::generate(const ExchangePtr& exchange, HttpRequest request) {
  if (auto error = why_not_now()) return reply_error(exchange, *error);
  const Clock::time_point arrived = Clock::now();
  const bool chat = request.path == "/v1/chat/completions";
  // A body is read beside this thread, so that a long prompt holds up nobody else.
  const size_t bytes = request.body.size();
  server_->offload(bytes, [this, exchange, chat, arrived, model = model_, seed = seeds_(),
                           request = std::move(request)] {
    auto prepared = std::make_shared<PreparedRequest>();
    std::optional<ApiError> error = guarded([&]() -> std::optional<ApiError> {
      ApiRequest& api = prepared->api;
      if (auto wrong = chat ? read_chat_completion(request.body, api) : read_completion(request.body, api))
        return wrong;
      if (auto wrong = check_choices(api, room_of(*model))) return wrong;
      return prepare(*model, seed, *prepared);
    });
    return std::function<void()>(
        [this, exchange, arrived, path = request.path, prepared, error = std::move(error)] {
          error ? reply_unread(exchange, *error) : submit(exchange, path, std::move(*prepared), arrived);
        });
  });
}

uint64_t Service::unfinished() const {
  return static_cast<uint64_t>(std::ranges::count_if(
      live_, [](const auto& of) { return !of.second.generation->has_whole(of.second.choice); }));
}

void Service::submit(const ExchangePtr& exchange, const std::string& path, PreparedRequest prepared,
                     Clock::time_point arrived) {
  if (!exchange->is_open()) return;
  if (auto error = why_not_now()) return reply_error(exchange, *error);
  const uint64_t room = room_of(*model_), running = unfinished();
  if (running + prepared.choices.size() > room)
    return reply_error(exchange,
                       {.status = 429,
                        .message = fmt::format("{} requests run or wait, at most {} may", running, room),
                        .type = "rate_limit_error",
                        .code = "rate_limit_exceeded"});
  const bool chat = prepared.api.chat.has_value();
  const AnswerHead head{.chat = chat,
                        .id = fmt::format("{}-{:016x}", chat ? "chatcmpl" : "cmpl", seeds_()),
                        .created = std::chrono::duration_cast<std::chrono::seconds>(
                                       std::chrono::system_clock::now().time_since_epoch())
                                       .count(),
                        .model = prepared.api.model.value_or(model_->name)};
  std::vector<mkrt::Request> choices = std::exchange(prepared.choices, {});
  const auto generation = std::make_shared<Generation>(exchange, model_, std::move(prepared), head);
  if (live_.empty()) busy_since_ = Clock::now();
  const uint64_t first = next_key_;
  next_key_ += choices.size();
  generation->begin([this, first](size_t choice) { loop_->cancel(first + choice); });
  for (size_t i = 0; i < choices.size(); ++i) {
    const auto prompt_tokens = static_cast<uint32_t>(choices[i].prompt.size());
    live_.emplace(first + i, Live{generation, i, prompt_tokens, arrived, {}, "POST " + path});
    loop_->submit(first + i, std::move(choices[i]));
  }
}

void Service::tokenize(const ExchangePtr& exchange, HttpRequest request) {
  const size_t bytes = request.body.size();
  server_->offload(bytes, [this, exchange, model = model_, request = std::move(request)] {
    Json answer;
    std::optional<ApiError> error = guarded([&] {
      return request.path == "/tokenize" ? tokenize_body(*model, request.body, answer)
                                         : detokenize_body(*model, request.body, answer);
    });
    return std::function<void()>([this, exchange, answer = std::move(answer), error = std::move(error)] {
      error ? reply_unread(exchange, *error) : reply_json(exchange, answer);
    });
  });
}

void Service::count(Live& live, const TokenEvent& event, Clock::time_point at) {
  if (!event.ids.empty()) {
    metrics_.generation_tokens += event.ids.size();
    if (live.last_token == Clock::time_point{}) {
      metrics_.prompt_tokens += live.prompt_tokens;
      metrics_.time_to_first_token.add(seconds_between(live.arrived, at));
    } else {
      const double seconds = seconds_between(live.last_token, at);
      metrics_.inter_token_latency.add(seconds / static_cast<double>(event.ids.size()), event.ids.size());
    }
    live.last_token = at;
  }
  if (!event.finish) return;
  const std::string reason = live.generation->reason_of(live.choice);
  // A choice that a stop string had ended has an answer, whatever became of its request.
  const bool failed = *event.finish == mkrt::FinishReason::kError && reason == "abort";
  ++metrics_.finished[failed ? "error" : reason];
  metrics_.request_latency.add(seconds_between(live.arrived, at));
}

void Service::take(StepReport report) {
  last_report_ = report.at;
  metrics_.engine = report.stats;
  fault_ = report.fault;
  for (TokenEvent& event : report.events) {
    const auto found = live_.find(event.key);
    if (found == live_.end()) continue;
    Live& live = found->second;
    const bool ended = event.finish.has_value();
    TokenEvent counted{.key = event.key, .ids = event.ids, .samples = {}, .finish = event.finish};
    live.generation->take(live.choice, std::move(event));
    count(live, counted, report.at);
    if (!ended) continue;
    const Live last = std::move(live);
    live_.erase(found);
    if (!last.generation->ended()) continue;
    if (options_.log) log(last);
    if (!last.generation->over()) unread_.push_back({last.generation, last.arrived});
  }
}

void Service::log(const Live& live) const {
  const Generation& generation = *live.generation;
  const Usage usage = generation.usage();
  options_.log(fmt::format("{} {}: {} tokens of prompt, {} new, {}, {:.3f} s\n", live.request,
                           generation.status(), usage.prompt_tokens, usage.completion_tokens,
                           generation.reason_of(0), seconds_between(live.arrived, Clock::now())));
}

void Service::tick() {
  std::erase_if(unread_, [](const Unread& unread) { return unread.generation->over(); });
  if (options_.request_timeout.count() == 0) return;
  const Clock::time_point limit = Clock::now() - options_.request_timeout;
  const ApiError error{.status = 504,
                       .message = fmt::format("the request took more than {} s, the time limit",
                                              options_.request_timeout.count()),
                       .type = "timeout_error",
                       .code = "timeout"};
  for (auto& [key, live] : live_)
    if (live.arrived < limit) live.generation->fail(error);
  for (const Unread& unread : unread_)
    if (unread.arrived < limit) unread.generation->fail(error);
}

}  // namespace mkc
