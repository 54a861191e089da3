#include "tools/serve/preflight.h"

#include <fmt/format.h>

#include "tools/serve/api_error.h"

namespace mkc {

bool is_preflight(const AllowedOrigins& origins, const HttpRequest& request) {
  return !origins.empty() && request.method == "OPTIONS" && !request.preflight.method.empty();
}

HttpReply preflight_reply(const AllowedOrigins& origins, const HttpRequest& request,
                          const std::string& methods) {
  if (!origins.allows(request.origin)) {
    const ApiError error{
        .status = 403,
        .message = fmt::format("found the origin \"{}\", expected one of --allowed-origin", request.origin),
        .type = "permission_error"};
    return {.status = error.status, .body = error_json(error)};
  }
  HttpReply reply{.body = {}, .content_type = "text/plain"};
  reply.headers.emplace_back("Access-Control-Allow-Methods", methods);
  // A header such as Authorization needs its name: "*" does not stand for it.
  if (!request.preflight.headers.empty())
    reply.headers.emplace_back("Access-Control-Allow-Headers", request.preflight.headers);
  reply.headers.emplace_back("Access-Control-Max-Age", "600");
  return reply;
}

}  // namespace mkc
