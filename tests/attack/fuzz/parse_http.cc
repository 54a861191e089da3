// A client's bytes go through a connection of the HTTP server, over a pair of sockets.
#include <sys/socket.h>
#include <unistd.h>

#include "tests/attack/fuzz/parsers.h"
#include "tools/serve/api_error.h"
#include "tools/serve/http_connection.h"
#include "tools/serve/preflight.h"

namespace mkc::attack {
namespace {

namespace asio = boost::asio;

void answer(const AllowedOrigins& origins, const ExchangePtr& exchange, const HttpRequest& request) {
  if (is_preflight(origins, request)) return exchange->reply(preflight_reply(origins, request, "GET, POST"));
  if (request.path != "/stream") return exchange->reply({.status = 200, .body = "{}"});
  exchange->begin_stream("text/event-stream");
  exchange->write(request.body.substr(0, 16));
  exchange->end();
}

struct Server {
  asio::io_context io;
  ConnectionHost host{.limits = {.max_body_bytes = 256},
                      .origins = AllowedOrigins({"https://app.example"}),
                      .handler = {},
                      .refusal = [](unsigned status, const std::string& message) {
                        return error_json({.status = status, .message = message});
                      }};
  Server() {
    host.handler = [this](const ExchangePtr& exchange, HttpRequest request) {
      answer(host.origins, exchange, request);
    };
  }
};

// Takes what the connection has written.
void receive(int client, std::string& text) {
  char bytes[4096];
  ssize_t size = 0;
  while ((size = ::recv(client, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
    text.append(bytes, static_cast<size_t>(size));
}

// A client that could add a line to an answer would tell a browser what the server did not.
void check_first_head(std::string_view text) {
  promise(text.empty() || text.starts_with("HTTP/1.1 "), "an answer has a status line");
  std::string_view head = text.substr(0, text.find("\r\n\r\n"));
  while (head.find("\r\n") != head.npos) {
    head.remove_prefix(head.find("\r\n") + 2);
    const std::string_view name = head.substr(0, head.find(':'));
    bool known = name.starts_with("Access-Control-");
    for (const std::string_view one : {"Server", "Content-Type", "Connection", "Vary", "Content-Length",
                                       "Transfer-Encoding", "Cache-Control"})
      known |= name == one;
    promise(known, "headers of an answer are the server's own");
  }
}

}  // namespace

void run_http(std::string_view input) {
  static Server server;
  int ends[2];
  promise(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "a pair of sockets can be made");
  const int client = ends[1];
  const ssize_t sent = ::send(client, input.data(), input.size(), MSG_DONTWAIT);
  promise(sent == static_cast<ssize_t>(input.size()), "the socket's buffer takes an input");
  ::shutdown(client, SHUT_WR);
  server.io.restart();
  asio::ip::tcp::socket socket(server.io);
  socket.assign(asio::ip::tcp::v4(), ends[0]);
  std::make_shared<HttpConnection>(std::move(socket), server.host)->serve();
  std::string text;
  for (int idle = 0; server.host.connections > 0; ++idle) {
    if (server.io.poll() > 0) idle = 0;
    receive(client, text);
    promise(idle < 1000, "a connection ends once its client has said all");
  }
  promise(server.host.under_way == 0, "no request is under way without a connection");
  receive(client, text);
  ::close(client);
  check_first_head(text);
}

std::vector<std::string> http_seeds() {
  return {
      "GET /v1/models?x=1 HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n\r\n"
      "HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: Bearer "
      "k\r\n"
      "Content-Length: 15\r\n\r\n{\"prompt\": \"a\"}GET / HTTP/1.0\r\n\r\n",
      "POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
      "5;x=y\r\nabcde\r\n0\r\nTrailer: t\r\n\r\n",
      "OPTIONS /v1/completions HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n"
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n\r\n"
      "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: https://b\r\nAccess-Control-Request-Method: GET\r\n\r\n"};
}

}  // namespace mkc::attack
