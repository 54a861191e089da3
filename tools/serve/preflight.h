// A browser asks by a preflight before it sends a page's request to another origin.
#pragma once

#include "tools/serve/http_server.h"

namespace mkc {

// Tells whether a request is a preflight that `origins` answers: without origins nothing is.
bool is_preflight(const AllowedOrigins& origins, const HttpRequest& request);

// Returns the answer: the path's methods and the headers asked for, or 403 for an origin that is not allowed.
HttpReply preflight_reply(const AllowedOrigins& origins, const HttpRequest& request,
                          const std::string& methods);

}  // namespace mkc
