#include "tools/serve/hosts.h"

#include <fmt/format.h>

#include <boost/asio/ip/address.hpp>

#include "tools/serve/lower_case.h"

namespace mkc {
namespace ip = boost::asio::ip;

namespace {

// Returns a name without the dot that may end it (RFC 1034, section 3.1).
std::string_view without_dot(std::string_view name) {
  return name.ends_with('.') ? name.substr(0, name.size() - 1) : name;
}

// Tells whether a host is an address of the loopback interface. One of IPv6 has brackets.
bool is_loopback_host(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']'))
    return is_loopback_address(host.substr(1, host.size() - 2));
  return host.find(':') == host.npos && is_loopback_address(host);
}

}  // namespace

bool is_loopback_address(std::string_view text) {
  boost::system::error_code failed;
  const ip::address address = ip::make_address(std::string(text), failed);
  if (failed) return false;
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return ip::make_address_v4(ip::v4_mapped, address.to_v6()).is_loopback();
  return address.is_loopback();
}

std::string host_name_of(std::string_view header) {
  const size_t colon = header.rfind(':');
  const bool has_port = colon != header.npos &&
                        header.find_first_not_of("0123456789", colon + 1) == header.npos &&
                        (header.find(']') == header.npos || header.find(']') < colon);
  return lower_case(std::string(has_port ? header.substr(0, colon) : header));
}

bool is_own_host(std::string_view header, std::string_view listening, const AllowedOrigins& origins) {
  const std::string given = host_name_of(header);
  const std::string_view host = without_dot(given);
  return given.empty() || host == "localhost" || host.ends_with(".localhost") || is_loopback_host(host) ||
         host == without_dot(lower_case(std::string(listening))) || origins.has_host(host);
}

ApiError host_error(std::string_view header) {
  return {.status = 403,
          .message = fmt::format(
              "found the host \"{}\", expected localhost, 127.0.0.1, [::1], the name of --host or "
              "the host of an --allowed-origin; a server with an --api-key takes any host",
              header),
          .type = "permission_error"};
}

}  // namespace mkc
