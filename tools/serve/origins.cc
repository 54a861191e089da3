#include "tools/serve/origins.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/serve/hosts.h"

namespace mkc {
namespace {

bool is_lower_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// Tells whether a text is an origin with a host. Browsers write hosts in lower case, and in ASCII.
bool is_tuple_origin(std::string_view text) {
  const size_t colon = text.find("://");
  if (colon == text.npos || colon == 0) return false;
  const std::string_view scheme = text.substr(0, colon), host = text.substr(colon + 3);
  const auto is_of_scheme = [](char c) { return is_lower_or_digit(c) || c == '+' || c == '-' || c == '.'; };
  const auto is_of_host = [](char c) {
    return is_lower_or_digit(c) || std::string_view("-._:[]").find(c) != std::string_view::npos;
  };
  return std::ranges::all_of(scheme, is_of_scheme) && !host.empty() && host.front() != ':' &&
         std::ranges::all_of(host, is_of_host);
}

}  // namespace

mkrt::Status check_origin(const std::string& origin) {
  if (origin == "*" || origin == "null" || is_tuple_origin(origin)) return {};
  return mkrt::Error{fmt::format(
      "--allowed-origin: error: found {}, expected *, null, or an origin as browsers send it, such as "
      "https://app.example:8443",
      origin)};
}

AllowedOrigins::AllowedOrigins(std::vector<std::string> origins)
    : origins_(std::move(origins)), all_(std::ranges::find(origins_, "*") != origins_.end()) {}

bool AllowedOrigins::allows(std::string_view origin) const {
  return !origin.empty() && (all_ || std::ranges::find(origins_, origin) != origins_.end());
}

bool AllowedOrigins::has_host(std::string_view host) const {
  return all_ || std::ranges::any_of(origins_, [&](std::string_view origin) {
           const size_t slashes = origin.find("://");
           return slashes != origin.npos && host_name_of(origin.substr(slashes + 3)) == host;
         });
}

std::string AllowedOrigins::headers(std::string_view origin) const {
  if (empty()) return "";
  // Caches keep answers to different origins apart, because their headers differ.
  std::string lines = all_ ? "" : "Vary: Origin\r\n";
  if (!allows(origin)) return lines;
  lines += fmt::format("Access-Control-Allow-Origin: {}\r\n", all_ ? "*" : origin);
  return lines + "Access-Control-Expose-Headers: Retry-After\r\n";
}

}  // namespace mkc
