#include "tools/serve/http_connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

namespace mkc {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr uint32_t kMaxHeaderBytes = 32 << 10;
constexpr size_t kMaxWriteBytes = 64 << 10;  // a slow client takes at least this in its time
constexpr std::chrono::seconds kLingerTime{2};
constexpr std::chrono::milliseconds kLookPeriod{200};  // at a client that has sent more than its request

std::string string_of(beast::string_view view) {
  return {view.data(), view.size()};
}

// Returns the status of an answer to a request that could not be read, or 0 for a connection that is gone.
unsigned refusal_status(const boost::system::error_code& error) {
  if (error == http::error::body_limit) return 413;
  if (error == http::error::header_limit) return 431;
  const bool malformed = error.category() == http::make_error_code(http::error::bad_method).category();
  return malformed && error != http::error::end_of_stream && error != http::error::partial_message ? 400 : 0;
}

// Returns what is wrong with the headers of a request, or "". A body whose end is unknown could hide another
// request (RFC 9112, sections 3.2 and 6.3).
std::string fault_of(const http::request<http::string_body>& request, bool chunked) {
  if (request.count(http::field::transfer_encoding) > 0 && (!chunked || request.version() < 11))
    return fmt::format("found Transfer-Encoding: {}, expected chunked as the last one, in HTTP/1.1",
                       string_of(request[http::field::transfer_encoding]));
  const size_t hosts = request.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && request.version() >= 11))
    return fmt::format("found {} headers Host, expected one", hosts);
  return "";
}

// Returns the path of a target, which proxies may send with scheme and host (RFC 9112, section 3.2.2).
std::string path_of(std::string target) {
  target.erase(std::min(target.find('?'), target.size()));
  for (const std::string scheme : {"http://", "https://"}) {
    if (!beast::iequals(target.substr(0, scheme.size()), scheme)) continue;
    const size_t path = target.find('/', scheme.size());
    return path == target.npos ? "/" : target.substr(path);
  }
  return target;
}

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, ConnectionHost& host)
    : stream_(std::move(socket)),
      host_(&host),
      buffer_(kMaxHeaderBytes + kMaxWriteBytes),
      next_look_(stream_.get_executor()) {
  ++host_->connections;
}

HttpConnection::~HttpConnection() {
  --host_->connections;
}

void HttpConnection::serve() {
  boost::system::error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  read_request();
}

void HttpConnection::turn_away() {
  under_way_ = true, ++host_->under_way;
  answered_ = keep_alive_ = false;
  reply({503,
         host_->refusal(503, "too many connections, try again later"),
         "application/json",
         {{"Retry-After", "1"}}});
}

void HttpConnection::read_request() {
  parser_.emplace();
  parser_->header_limit(kMaxHeaderBytes);
  parser_->body_limit(host_->limits.max_body_bytes);
  stream_.expires_after(host_->limits.client_timeout);
  http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](const ErrorCode& error, size_t) { self->read_body(error); });
}

void HttpConnection::read_body(const ErrorCode& error) {
  if (error) return refuse(error);
  const auto& request = parser_->get();
  http_1_0_ = request.version() < 11;
  if (const std::string fault = fault_of(request, parser_->chunked()); !fault.empty())
    return refuse(400, "found a malformed HTTP request: " + fault);
  const auto read = [self = shared_from_this()] {
    http::async_read(self->stream_, self->buffer_, *self->parser_,
                     [self](const ErrorCode& failed, size_t) { self->dispatch(failed); });
  };
  if (http_1_0_ || !beast::iequals(request[http::field::expect], "100-continue")) return read();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()),
                    [self = shared_from_this(), read](const ErrorCode& failed, size_t) {
                      if (failed) return self->close();
                      read();
                    });
}

void HttpConnection::dispatch(const ErrorCode& error) {
  if (error) return refuse(error);
  take_origin();
  auto& message = parser_->get();
  keep_alive_ = message.keep_alive();
  head_only_ = message.method() == http::verb::head;
  HttpRequest request;
  request.method = head_only_ ? "GET" : string_of(message.method_string());
  request.path = path_of(string_of(message.target()));
  request.content_type = string_of(message[http::field::content_type]);
  request.authorization = string_of(message[http::field::authorization]);
  request.origin = string_of(message[http::field::origin]);
  request.host = string_of(message[http::field::host]);
  request.preflight = {string_of(message[http::field::access_control_request_method]),
                       string_of(message[http::field::access_control_request_headers])};
  request.body = std::move(message.body());
  parser_.reset();
  stream_.expires_never();
  under_way_ = true, ++host_->under_way;
  answered_ = false;
  watch();
  host_->handler(shared_from_this(), std::move(request));
}

// Sets which page may read the answer. Pages read refusals, too, as far as their origin has been read.
void HttpConnection::take_origin() {
  origin_headers_ = host_->origins.headers(string_of(parser_->get()[http::field::origin]));
}

void HttpConnection::refuse(const ErrorCode& error) {
  const unsigned status = refusal_status(error);
  if (status == 0) return close();
  const std::string message =
      status == 413 ? fmt::format("found a body of more than {0} bytes, expected at most {0}",
                                  host_->limits.max_body_bytes)
      : status == 431
          ? fmt::format("found more than {0} bytes of headers, expected at most {0}", kMaxHeaderBytes)
          : fmt::format("found a malformed HTTP request: {}", error.message());
  refuse(status, message);
}

// Answers a request whose end may be unknown, and closes.
void HttpConnection::refuse(unsigned status, const std::string& message) {
  under_way_ = true, ++host_->under_way;
  answered_ = keep_alive_ = false;
  take_origin();
  reply({status, host_->refusal(status, message)});
}

// Returns status line and headers, up to those of the body's length.
std::string HttpConnection::head(unsigned status, std::string_view content_type) {
  if (host_->drains) keep_alive_ = false;
  return fmt::format("HTTP/1.1 {} {}\r\nServer: mkc\r\nContent-Type: {}\r\nConnection: {}\r\n{}", status,
                     string_of(http::obsolete_reason(http::int_to_status(status))), content_type,
                     keep_alive_ ? "keep-alive" : "close", origin_headers_);
}

void HttpConnection::reply(const HttpReply& reply) {
  if (closed_ || answered_) return;
  std::string text = head(reply.status, reply.content_type);
  for (const auto& [name, value] : reply.headers) text += fmt::format("{}: {}\r\n", name, value);
  text += fmt::format("Content-Length: {}\r\n\r\n", reply.body.size());
  if (!head_only_) text += reply.body;
  queue(std::move(text));
  finish_answer();
}

void HttpConnection::begin_stream(std::string_view content_type) {
  if (closed_ || answered_) return;
  chunked_ = !http_1_0_;
  if (!chunked_) keep_alive_ = false;
  queue(head(200, content_type) + "Cache-Control: no-cache\r\n" +
        (chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n"));
}

void HttpConnection::write(std::string_view text) {
  if (closed_ || answered_ || text.empty() || head_only_) return;
  queue(chunked_ ? fmt::format("{:x}\r\n{}\r\n", text.size(), text) : std::string(text));
}

void HttpConnection::end() {
  if (closed_ || answered_) return;
  if (chunked_ && !head_only_) queue("0\r\n\r\n");
  finish_answer();
}

void HttpConnection::finish_answer() {
  answered_ = true;
  on_closed = on_drained = nullptr;
  if (queue_.empty()) answer_sent();
}

void HttpConnection::answer_sent() {
  under_way_ = false, --host_->under_way;
  keep_alive_ ? read_request() : linger();
}

void HttpConnection::queue(std::string text) {
  queued_bytes_ += text.size();
  const bool back_is_written = writing_ && queue_.size() == 1;
  if (!queue_.empty() && !back_is_written && queue_.back().size() + text.size() <= kMaxWriteBytes)
    queue_.back() += text;
  else
    queue_.push_back(std::move(text));
  flush();
}

void HttpConnection::flush() {
  if (writing_ || queue_.empty()) return;
  writing_ = true;
  stream_.expires_after(host_->limits.client_timeout);
  const asio::const_buffer rest = asio::buffer(queue_.front()) + front_sent_;
  asio::async_write(
      stream_, asio::buffer(rest, kMaxWriteBytes),
      [self = shared_from_this()](const ErrorCode& error, size_t bytes) { self->sent(error, bytes); });
}

void HttpConnection::sent(const ErrorCode& error, size_t bytes) {
  writing_ = false;
  if (closed_) return;
  if (error) return close();
  stream_.expires_never();
  queued_bytes_ -= bytes;
  front_sent_ += bytes;
  if (front_sent_ == queue_.front().size()) queue_.pop_front(), front_sent_ = 0;
  if (!queue_.empty()) return flush();
  if (answered_) return answer_sent();
  if (const std::function<void()> drained = on_drained) drained();
}

// Waits until the client sends more or closes its side.
void HttpConnection::watch() {
  if (watching_) return;
  watching_ = true;
  stream_.socket().async_wait(asio::ip::tcp::socket::wait_read,
                              [self = shared_from_this()](const ErrorCode& error) {
                                self->watching_ = false;
                                if (!error) self->look();
                              });
}

// Looks whether the client is there. A client that closes its side is gone. One that has sent more gets its
// next request read after this one, and is looked at again and again, because its bytes keep the socket
// readable.
void HttpConnection::look() {
  if (closed_ || !under_way_) return;
  char byte = 0;
  const ssize_t size = ::recv(stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool unread = size > 0, lost = size < 0 && errno != EAGAIN && errno != EWOULDBLOCK;
  pollfd sides{.fd = stream_.socket().native_handle(), .events = POLLRDHUP, .revents = 0};
  const bool has_closed = size == 0 || (::poll(&sides, 1, 0) == 1 && sides.revents != 0);
  // The client may have closed its sending side alone. An answer that is complete is still sent.
  if (lost || (has_closed && !answered_)) return close();
  if (has_closed && !unread) keep_alive_ = false;
  if (has_closed) return;
  watching_ = true;
  next_look_.expires_after(kLookPeriod);
  next_look_.async_wait([self = shared_from_this()](const ErrorCode& error) {
    self->watching_ = false;
    if (!error) self->look();
  });
}

// Closes the sending side and reads on for a while, because a close with unread bytes would discard the
// answer on its way.
void HttpConnection::linger() {
  ErrorCode failed;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, failed);
  if (failed) return close();
  stream_.expires_after(kLingerTime);
  struct Discard {
    std::shared_ptr<HttpConnection> self;
    std::shared_ptr<std::array<char, 4096>> to = std::make_shared<std::array<char, 4096>>();
    void operator()(const ErrorCode& error, size_t) {
      if (error || self->closed_) return self->close();
      beast::tcp_stream& stream = self->stream_;
      const auto at = asio::buffer(*to);
      stream.async_read_some(at, std::move(*this));
    }
  };
  Discard{shared_from_this()}({}, 0);
}

void HttpConnection::close() {
  if (closed_) return;
  closed_ = true;
  next_look_.cancel();
  if (under_way_) under_way_ = false, --host_->under_way;
  stream_.close();
  queue_.clear();
  queued_bytes_ = 0;
  const std::function<void()> gone = std::exchange(on_closed, nullptr);
  on_drained = nullptr;
  if (gone && !answered_) gone();
}

}  // namespace mkc
