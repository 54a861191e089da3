#include "tools/serve/replies.h"

namespace mkc {

void reply_error(const ExchangePtr& exchange, const ApiError& error) {
  HttpReply reply{.status = error.status, .body = error_json(error)};
  if (error.status == 429 || error.status == 503) reply.headers.emplace_back("Retry-After", "1");
  if (error.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  exchange->reply(reply);
}

void reply_json(const ExchangePtr& exchange, const Json& json) {
  exchange->reply({.status = 200, .body = json_text(json)});
}

void reply_file(const ExchangePtr& exchange, const WebFile& file) {
  exchange->reply({.status = 200,
                   .body = std::string(file.bytes),
                   .content_type = std::string(content_type_of(file)),
                   .headers = {{"Content-Security-Policy", std::string(kContentSecurityPolicy)},
                               {"X-Content-Type-Options", "nosniff"},
                               {"Referrer-Policy", "no-referrer"},
                               {"Cache-Control", "no-cache"}}});
}

}  // namespace mkc
