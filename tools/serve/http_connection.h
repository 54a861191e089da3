// One client's connection carries requests in and answers out, one after the other.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <deque>
#include <memory>
#include <optional>

#include "tools/serve/http_server.h"

namespace mkc {

// ConnectionHost is what all connections of a server share.
struct ConnectionHost {
  HttpLimits limits;
  AllowedOrigins origins;
  HttpHandler handler;
  RefusalBody refusal;
  uint32_t connections = 0;
  uint32_t under_way = 0;  // requests without their whole answer
  bool drains = false;     // connections close behind their answers
};

class HttpConnection final : public Exchange, public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(boost::asio::ip::tcp::socket socket, ConnectionHost& host);
  ~HttpConnection() override;

  // Serves the connection until the client closes it.
  void serve();
  // Answers that there are too many connections, and closes.
  void turn_away();

  void reply(const HttpReply& reply) override;
  void begin_stream(std::string_view content_type) override;
  void write(std::string_view text) override;
  void end() override;
  bool is_open() const override { return !closed_; }
  size_t queued_bytes() const override { return queued_bytes_; }

 private:
  using ErrorCode = boost::system::error_code;
  void read_request();
  void read_body(const ErrorCode& error);
  void dispatch(const ErrorCode& error);
  void refuse(const ErrorCode& error);
  void refuse(unsigned status, const std::string& message);
  void take_origin();
  std::string head(unsigned status, std::string_view content_type);
  void finish_answer();
  void answer_sent();
  void queue(std::string text);
  void flush();
  void sent(const ErrorCode& error, size_t bytes);
  void watch();
  void look();
  void linger();
  void close();

  boost::beast::tcp_stream stream_;
  ConnectionHost* host_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::deque<std::string> queue_;
  boost::asio::steady_timer next_look_;
  std::string origin_headers_;  // of the answer, by the request's origin
  size_t queued_bytes_ = 0, front_sent_ = 0;
  bool writing_ = false;
  bool under_way_ = false;   // a request awaits the rest of its answer
  bool answered_ = true;     // the whole answer is queued
  bool chunked_ = false;     // of the stream
  bool keep_alive_ = false;  // after this answer
  bool head_only_ = false;   // answers have no body
  bool http_1_0_ = false;
  bool watching_ = false;
  bool closed_ = false;
};

}  // namespace mkc
