// The server has routes, and requests that are under way. Everything runs on the server's thread, but for the
// reading of bodies.
#pragma once

#include <map>
#include <memory>
#include <random>

#include "tools/serve/engine_loop.h"
#include "tools/serve/generation.h"
#include "tools/serve/http_server.h"
#include "tools/serve/metrics.h"
#include "tools/serve/served_model.h"

namespace mkc {

struct ServiceOptions {
  std::string api_key;             // empty: none is asked for
  AllowedOrigins allowed_origins;  // of pages whose requests browsers may send
  bool own_hosts_only = false;     // whether the header Host must name this machine, or an allowed origin's
  std::string listening_host;      // name of this machine that the server was told to listen on
  uint32_t max_waiting = 256;
  std::chrono::seconds request_timeout{0};       // 0: none
  std::chrono::milliseconds step_limit{10'000};  // a longer step makes no progress
  std::string version;
  std::function<bool()> device_runs;            // tells whether steps are possible; null: always
  std::function<void(const std::string&)> log;  // takes a line for each request; null: none
};

class Service {
 public:
  // Server and loop must outlive the service.
  Service(HttpServer& server, EngineLoop& loop, ServiceOptions options);

  // Answers a request, now or later.
  void handle(const ExchangePtr& exchange, HttpRequest request);

  // The service answers 503 until it has its model, and again once it drains.
  void begin(std::shared_ptr<const ServedModel> model) { model_ = std::move(model); }
  bool has_model() const { return model_ != nullptr; }
  void drain();

  // Ends all requests with 503, also those whose bodies are being read.
  void end_all();

  // Takes what a step of the engine gave.
  void take(StepReport report);

  // Ends the requests that have taken too long, and forgets the answers that clients have taken or left.
  void tick();

  // Returns the body of an error, for a request that reaches no route.
  static std::string refusal(unsigned status, const std::string& message);

 private:
  using Clock = std::chrono::steady_clock;
  struct Route;
  // Live is one request of the engine.
  struct Live {
    std::shared_ptr<Generation> generation;
    size_t choice = 0;
    uint32_t prompt_tokens = 0;
    Clock::time_point arrived, last_token = {};
    std::string request;  // method and path, for the log
  };

  static const std::vector<Route>& routes();
  static const Route* find_route(const HttpRequest& request, std::string& allowed);
  const char* status() const;
  void health(const ExchangePtr& exchange);
  void state(const ExchangePtr& exchange);
  void last_launch(const ExchangePtr& exchange);
  void generate(const ExchangePtr& exchange, HttpRequest request);
  void submit(const ExchangePtr& exchange, const std::string& path, PreparedRequest prepared,
              Clock::time_point arrived);
  void tokenize(const ExchangePtr& exchange, HttpRequest request);
  uint64_t room_of(const ServedModel& model) const;
  // Returns how many choices run or wait. Those that a stop string has ended do neither, whatever the engine
  // still does for them.
  uint64_t unfinished() const;
  std::optional<ApiError> why_not_now() const;
  // Answers a body that could not be read. A body whose reading the server's end cut short gets 503.
  void reply_unread(const ExchangePtr& exchange, const ApiError& error) const;
  void count(Live& live, const TokenEvent& event, Clock::time_point at);
  void log(const Live& live) const;

  HttpServer* server_;
  EngineLoop* loop_;
  ServiceOptions options_;
  std::shared_ptr<const ServedModel> model_;
  bool draining_ = false, ending_ = false;
  std::string fault_;
  std::map<uint64_t, Live> live_;  // by key
  // Unread is a stream whose choices have ended, while its client has chunks to take.
  struct Unread {
    std::shared_ptr<Generation> generation;
    Clock::time_point arrived;
  };
  std::vector<Unread> unread_;
  uint64_t next_key_ = 0;
  Clock::time_point last_report_{}, busy_since_{};
  Metrics metrics_;
  std::mt19937_64 seeds_;
};

}  // namespace mkc
