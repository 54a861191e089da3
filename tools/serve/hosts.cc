#include "tools/serve/hosts.h"

#include <fmt/format.h>

#include "tools/serve/lower_case.h"

namespace mkc {
namespace {

// Tells whether a host is an IPv4 address of the loopback interface.
bool is_loopback_address(std::string_view host) {
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos;
}

}  // namespace

std::string host_name_of(std::string_view header) {
  const size_t colon = header.rfind(':');
  const bool has_port = colon != header.npos &&
                        header.find_first_not_of("0123456789", colon + 1) == header.npos &&
                        (header.find(']') == header.npos || header.find(']') < colon);
  return lower_case(std::string(has_port ? header.substr(0, colon) : header));
}

bool is_own_host(std::string_view header, const AllowedOrigins& origins) {
  const std::string host = host_name_of(header);
  return host.empty() || host == "localhost" || host == "[::1]" || is_loopback_address(host) ||
         origins.has_host(host);
}

ApiError host_error(std::string_view header) {
  return {
      .status = 403,
      .message = fmt::format("found the host \"{}\", expected localhost, 127.0.0.1, [::1] or the host of an "
                             "--allowed-origin; a server with an --api-key takes any host",
                             header),
      .type = "permission_error"};
}

}  // namespace mkc
