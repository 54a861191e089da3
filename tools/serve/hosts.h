// A server of this machine alone answers under names of this machine alone. Otherwise a web page could have
// its own name resolve to 127.0.0.1, and use the server as a page of one origin with it (DNS rebinding).
#pragma once

#include <string>
#include <string_view>

#include "tools/serve/api_error.h"
#include "tools/serve/origins.h"

namespace mkc {

// Returns the host of the header Host, in lower case and without its port: "[::1]".
std::string host_name_of(std::string_view header);

// Tells whether a text is an IP address of the loopback interface: "127.0.0.1", "::1", "::ffff:127.0.0.1".
bool is_loopback_address(std::string_view text);

// Tells whether a header Host names this machine itself, the name that the server was told to listen on, or
// the host of an allowed origin. An empty header is no browser's.
bool is_own_host(std::string_view header, std::string_view listening, const AllowedOrigins& origins);
// Returns the answer to another host: 403.
ApiError host_error(std::string_view header);

}  // namespace mkc
