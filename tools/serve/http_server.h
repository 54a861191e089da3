// The HTTP/1.1 server runs on one thread. Handlers answer at once or later, whole or as a stream.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "tools/serve/origins.h"

namespace mkc {

struct HttpLimits {
  uint32_t max_connections = 512;
  uint64_t max_body_bytes = 16 << 20;
  // A client gets this time to send a whole request, and to take each write of an answer.
  std::chrono::seconds client_timeout{60};
};

// Preflight is what a browser asks before it sends a page's request to another origin.
struct Preflight {
  std::string method, headers;  // of the request to come; without a method, there is no preflight
};

struct HttpRequest {
  std::string method;
  std::string path;  // without the query
  std::string content_type, authorization;
  std::string origin;  // of the page that sends the request; empty: none
  std::string host;    // header Host; empty: none
  Preflight preflight;
  std::string body;
};

struct HttpReply {
  unsigned status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};  // further ones
};

// Exchange is one request that awaits its answer. Its functions are called on the server's thread only. An
// answer is one reply(), or begin_stream(), any number of write() and one end().
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void reply(const HttpReply& reply) = 0;
  virtual void begin_stream(std::string_view content_type) = 0;
  virtual void write(std::string_view text) = 0;
  virtual void end() = 0;
  // Returns false once the client is gone.
  virtual bool is_open() const = 0;
  // Returns the bytes of the answer that the client has not taken yet, without those in the socket's buffer.
  virtual size_t queued_bytes() const = 0;

  // The server calls on_drained when it has written all that was queued. The server calls on_closed when the
  // client is gone or too slow; the exchange takes no further calls then. end() and reply() clear both.
  std::function<void()> on_drained, on_closed;
};

using ExchangePtr = std::shared_ptr<Exchange>;
using HttpHandler = std::function<void(const ExchangePtr&, HttpRequest)>;
// RefusalBody makes the body of an answer that no handler gives: 400, 413, 431 or 503.
using RefusalBody = std::function<std::string(unsigned status, const std::string& message)>;

// Returns the URL of a server's root. An IPv6 address gets brackets.
std::string url_of(const std::string& host, uint16_t port);

class HttpServer {
 public:
  // Listens on an address. `port` 0 takes a free one. `refusal` makes the body of answers to requests that
  // reach no handler: malformed ones, too large ones, and those beyond the limit of connections.
  //
  // Errors: an address that is no IP address or host name, a port that is taken.
  static mkrt::Result<HttpServer> listen(const std::string& host, uint16_t port, const HttpLimits& limits,
                                         RefusalBody refusal);
  HttpServer(HttpServer&&) noexcept;
  ~HttpServer();

  uint16_t port() const;
  // Tells whether other machines cannot reach the server.
  bool on_loopback() const;

  // Lets pages of other origins read all answers but those that turn a connection away. Requires that run()
  // has not begun.
  void allow(AllowedOrigins origins);

  // Serves until stop(). The handler and all functions below run on the calling thread.
  void run(HttpHandler handler);
  void stop();

  // Runs a function on the server's thread. Any thread may call it.
  void post(std::function<void()> function);
  // Runs `work` on another thread, and then the function that it returns on the server's thread. `bytes` is
  // the size of the text that the work reads. Long texts do not hold up short ones.
  void offload(size_t bytes, std::function<std::function<void()>()> work);
  // Calls a function again and again, until the server stops.
  void every(std::chrono::milliseconds period, const std::function<void()>& function);
  // Calls a function for each SIGINT and SIGTERM.
  void on_signal(const std::function<void(int)>& function);

  // Closes each connection behind its next answer.
  void drain();

  // Tells whether a request awaits its answer or a part of it.
  bool busy() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mkc
