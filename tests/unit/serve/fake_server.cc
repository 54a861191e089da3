// This server's model is a FakeModel, for tests of what takes time or goes wrong. Arguments are NAME=NUMBER:
// step_ms, fail_at (a launch), lost_at (a launch whose first request has finite logits for lost_after tokens
// only), nan_behind (a token of prompts), steps (of a launch), end_id (a model's end token), max_requests,
// max_waiting, request_timeout, client_timeout, grace, max_connections, max_body_bytes, load_ms, traced,
// trace_fails, origins (1: two, 2: all), api_key (1: "key"), own_hosts (1: only). Prints the port.
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "runtime/session/trace.h"
#include "tests/unit/engine/fake_model.h"
#include "tools/serve/run_service.h"

namespace {

using namespace mkc;

constexpr mkrt::BatchLimits kLimits{
    .max_tokens = 64, .max_requests = 4, .context = 4096, .vocab = 640, .page_size = 16, .pages = 1024};

// SlowModel takes a time for each step.
class SlowModel final : public mkrt::Stepper {
 public:
  SlowModel(const mkrt::BatchLimits& limits, std::chrono::milliseconds step) : model_(limits), step_(step) {}
  mkrt::BatchLimits limits() const override { return model_.limits(); }
  mkrt::Status step(const mkrt::Batch& batch, mkrt::StepResult& result) override {
    std::this_thread::sleep_for(step_);
    if (launches_++ == fail_at) return mkrt::Error{"device: error: worker 3 waited too long"};
    model_.lost_at =
        launches_ == lost_at + 1 ? 0 : ~0ull;  // the model counts launches since the last clear()
    mkrt::Status status = model_.step(batch, result);
    model_.steps.clear();
    return status;
  }

  mkrt::FakeModel& model() { return model_; }

  uint64_t fail_at = ~0ull;  // index of the launch that fails
  uint64_t lost_at = ~1ull;  // index of the launch that loses finite logits

 private:
  mkrt::FakeModel model_;
  std::chrono::milliseconds step_;
  uint64_t launches_ = 0;
};

// Writes each message as <role>content, and refuses tool messages.
mkrt::Result<std::string> render(const nlohmann::ordered_json& messages,
                                 const nlohmann::ordered_json& variables) {
  std::string text;
  for (const nlohmann::ordered_json& message : messages) {
    if (message.at("role") == "tool") return mkrt::Error{"template.jinja:3: error: no tools here"};
    text += fmt::format("<{}>{}\n", message.at("role").get<std::string>(),
                        message.at("content").get<std::string>());
  }
  return text + (variables.at("add_generation_prompt").get<bool>() ? "<assistant>" : "");
}

// Returns the trace file of one worker that ran a task of the grid l0.norm.
mkrt::Result<std::string> read_trace() {
  mkrt::Trace trace;
  trace.device = trace.model = "fake";
  trace.timed = true;
  trace.grids = {"l0.norm"};
  trace.requests = {{1, 1}};
  trace.tracks.resize(mkrt::kTracks);
  trace.tracks[0].stamps = {{0, 0, 0, mkrt::kTaskReached, 0, 0},
                            {1000, 0, 0, mkrt::kTaskBegun, 0, 0},
                            {3000, 1, 0, mkrt::kTaskEnded, 0, 0}};
  return mkrt::to_json(trace);
}

// Puts a pattern before others that looks at all digits behind each place.
void cut_slowly(mkrt::Tokenizer& tokenizer) {
  auto pattern = mkrt::Regex::compile(R"((?=(\d{3})+(?!\d)))");
  tokenizer.pre_tokenizer.emplace(
      tokenizer.pre_tokenizer.begin(),
      mkrt::SplitPieces{std::move(pattern.value()), mkrt::SplitBehavior::kIsolated, false});
}

int64_t number(const std::map<std::string, int64_t>& given, const std::string& name, int64_t otherwise) {
  const auto found = given.find(name);
  return found == given.end() ? otherwise : found->second;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::map<std::string, int64_t> given;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    given[argument.substr(0, argument.find('='))] = std::atoll(argument.c_str() + argument.find('=') + 1);
  }
  mkrt::BatchLimits limits = kLimits;
  limits.max_requests = static_cast<uint32_t>(number(given, "max_requests", kLimits.max_requests));
  SlowModel stepper(limits, std::chrono::milliseconds(number(given, "step_ms", 0)));
  stepper.fail_at = static_cast<uint64_t>(number(given, "fail_at", -1));
  stepper.lost_at = static_cast<uint64_t>(number(given, "lost_at", -2));
  stepper.model().lost_after = static_cast<uint32_t>(number(given, "lost_after", 0));
  stepper.model().nan_behind = static_cast<int32_t>(number(given, "nan_behind", -1));
  mkrt::EngineOptions engine_options{.steps_per_launch = static_cast<uint32_t>(number(given, "steps", 1))};
  if (given.contains("end_id")) engine_options.stop_ids = {static_cast<int32_t>(given.at("end_id"))};
  auto engine = mkrt::Engine::open(stepper, engine_options);

  HttpLimits http;
  http.client_timeout = std::chrono::seconds(number(given, "client_timeout", 60));
  http.max_connections = static_cast<uint32_t>(number(given, "max_connections", 512));
  http.max_body_bytes = static_cast<uint64_t>(number(given, "max_body_bytes", 1 << 20));
  ServiceOptions options;
  options.max_waiting = static_cast<uint32_t>(number(given, "max_waiting", 256));
  options.request_timeout = std::chrono::seconds(number(given, "request_timeout", 0));
  options.version = "0";
  if (number(given, "api_key", 0)) options.api_key = "key";
  const std::vector<std::string> origins[] = {{}, {"https://app.example", "http://localhost:3000"}, {"*"}};
  options.allowed_origins = AllowedOrigins(origins[number(given, "origins", 0)]);
  options.own_hosts_only = number(given, "own_hosts", 0) != 0;
  auto server = HttpServer::listen("127.0.0.1", 0, http, Service::refusal);
  auto tokenizer = mkrt::load_tokenizer(MKC_SOURCE_DIR "/models/tiny-stories/tokenizer.json");
  if (!engine.ok() || !server.ok() || !tokenizer.ok()) return 1;
  server.value().allow(options.allowed_origins);
  EngineLoop loop;
  Service service(server.value(), loop, options);
  const RunningService running{server.value(), loop, service};
  fmt::print("{}\n", server.value().port());
  std::fflush(stdout);
  ServedModel model;
  model.name = "fake";
  model.tokenizer = std::move(tokenizer.value());
  if (number(given, "slow_pattern", 0)) cut_slowly(model.tokenizer);
  model.render_chat = render;
  model.limits = limits;
  model.end_ids = engine_options.stop_ids;
  model.device = "none";
  if (number(given, "traced", 0)) model.read_trace = read_trace;
  if (number(given, "trace_fails", 0))
    model.read_trace = [] { return mkrt::Result<std::string>(mkrt::Error{"device: error: is gone"}); };
  const auto run = [&]() -> mkrt::Status {
    std::this_thread::sleep_for(std::chrono::milliseconds(number(given, "load_ms", 0)));
    serve_engine(running, std::move(model), engine.value());
    return {};
  };
  const auto end_now = [](int signal) { std::_Exit(128 + signal); };
  return run_service(
             running, std::chrono::seconds(number(given, "grace", 30)), run, [] {}, end_now)
                 .ok()
             ? 0
             : 1;
}
