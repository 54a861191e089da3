#include "tools/serve/http_server.h"

#include <fmt/format.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <system_error>
#include <thread>
#include <vector>

#include "tools/serve/hosts.h"
#include "tools/serve/http_connection.h"

namespace mkc {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {
constexpr uint32_t kTurnedAway = 64;  // connections beyond the limit that get an answer at one time
constexpr std::chrono::milliseconds kAcceptPause{50};
constexpr size_t kWorkers = 2;           // of each pool
constexpr size_t kLongBytes = 64 << 10;  // work on this much text goes to workers of its own

// Pool runs work on threads of its own.
struct Pool {
  asio::io_context work{kWorkers};
  asio::executor_work_guard<asio::io_context::executor_type> more_work{work.get_executor()};
  std::vector<std::jthread> workers;

  ~Pool() { work.stop(); }

  // Starts the workers, or as many as there are threads. Returns why there is none.
  mkrt::Status start() {
    try {
      while (workers.size() < kWorkers) workers.emplace_back([this] { work.run(); });
    } catch (const std::system_error& e) {
      if (workers.empty()) return mkrt::Error{fmt::format("mkc: error: no thread: {}", e.what())};
    }
    return {};
  }
};
}  // namespace

struct HttpServer::State {
  ConnectionHost host;
  asio::io_context context{1};
  tcp::acceptor acceptor{context};
  asio::steady_timer pause{context};
  asio::signal_set signals{context};
  std::vector<std::unique_ptr<asio::steady_timer>> timers;
  Pool short_work, long_work;

  void accept() {
    acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
      if (!error) {
        take(std::move(socket));
        return accept();
      }
      if (error == asio::error::operation_aborted) return;
      // The process may be out of file descriptors: the clients wait in the kernel's queue.
      pause.expires_after(kAcceptPause);
      pause.async_wait([this](const error_code& stopped) {
        if (!stopped) accept();
      });
    });
  }

  void take(tcp::socket socket) {
    if (host.connections >= host.limits.max_connections + kTurnedAway) return;
    const bool full = host.connections >= host.limits.max_connections;
    const auto connection = std::make_shared<HttpConnection>(std::move(socket), host);
    full ? connection->turn_away() : connection->serve();
  }

  void repeat(asio::steady_timer& timer, std::chrono::milliseconds period,
              const std::function<void()>& function) {
    timer.expires_after(period);
    timer.async_wait([this, &timer, period, function](const error_code& stopped) {
      if (stopped) return;
      function();
      repeat(timer, period, function);
    });
  }

  void wait_for_signal(const std::function<void(int)>& function) {
    signals.async_wait([this, function](const error_code& stopped, int signal) {
      if (stopped) return;
      wait_for_signal(function);
      function(signal);
    });
  }
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpServer::HttpServer(HttpServer&&) noexcept = default;

HttpServer::~HttpServer() = default;

mkrt::Result<HttpServer> HttpServer::listen(const std::string& host, uint16_t port, const HttpLimits& limits,
                                            RefusalBody refusal) {
  auto state = std::make_unique<State>();
  state->host.limits = limits;
  state->host.refusal = std::move(refusal);
  error_code failed;
  tcp::resolver resolver(state->context);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, failed);
  if (failed)
    return mkrt::Error{
        fmt::format("--host: error: found {}, expected an address: {}", host, failed.message())};
  const tcp::endpoint endpoint = found.begin()->endpoint();
  tcp::acceptor& acceptor = state->acceptor;
  acceptor.open(endpoint.protocol(), failed);
  if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(tcp::acceptor::max_listen_connections, failed);
  if (failed)
    return mkrt::Error{
        fmt::format("--port: error: cannot listen on {} port {}: {}", host, port, failed.message())};
  for (Pool* pool : {&state->short_work, &state->long_work})
    if (mkrt::Status started = pool->start(); !started.ok()) return started.error();
  return HttpServer(std::move(state));
}

std::string url_of(const std::string& host, uint16_t port) {
  const bool is_ipv6 = host.find(':') != host.npos;
  return is_ipv6 ? fmt::format("http://[{}]:{}", host, port) : fmt::format("http://{}:{}", host, port);
}

uint16_t HttpServer::port() const {
  error_code ignored;
  return state_->acceptor.local_endpoint(ignored).port();
}

bool HttpServer::on_loopback() const {
  error_code ignored;
  return is_loopback_address(state_->acceptor.local_endpoint(ignored).address().to_string());
}

void HttpServer::allow(AllowedOrigins origins) {
  state_->host.origins = std::move(origins);
}

void HttpServer::run(HttpHandler handler) {
  state_->host.handler = std::move(handler);
  state_->accept();
  state_->context.run();
}

void HttpServer::stop() {
  state_->context.stop();
}

void HttpServer::post(std::function<void()> function) {
  asio::post(state_->context, std::move(function));
}

void HttpServer::offload(size_t bytes, std::function<std::function<void()>()> work) {
  Pool& pool = bytes < kLongBytes ? state_->short_work : state_->long_work;
  asio::post(pool.work, [this, work = std::move(work)]() mutable {
    std::function<void()> done = work();
    // `work` may hold what belongs to the server's thread, and therefore ends there.
    post([work = std::move(work), done = std::move(done)] { done(); });
  });
}

void HttpServer::every(std::chrono::milliseconds period, const std::function<void()>& function) {
  state_->timers.push_back(std::make_unique<asio::steady_timer>(state_->context));
  state_->repeat(*state_->timers.back(), period, function);
}

void HttpServer::on_signal(const std::function<void(int)>& function) {
  error_code failed;
  for (const int signal : {SIGINT, SIGTERM}) state_->signals.add(signal, failed);
  state_->wait_for_signal(function);
}

void HttpServer::drain() {
  state_->host.drains = true;
}

bool HttpServer::busy() const {
  return state_->host.under_way > 0;
}

}  // namespace mkc
