// Pages of other origins may use the server where its options allow them (the CORS protocol of the Fetch
// standard).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace mkc {

// Checks an origin as browsers send it: "*", "null", or scheme://host with an optional port. Error: anything
// else, such as a path behind it.
mkrt::Status check_origin(const std::string& origin);

// AllowedOrigins are the origins whose pages may read answers. An empty list allows none.
class AllowedOrigins {
 public:
  AllowedOrigins() = default;
  // Requires check_origin of each. "*" allows all.
  explicit AllowedOrigins(std::vector<std::string> origins);

  bool empty() const { return origins_.empty(); }
  bool allows(std::string_view origin) const;
  // Tells whether an allowed origin has this host, on any port.
  bool has_host(std::string_view host) const;
  // Returns the headers of every answer to a request, as lines. `origin` is the request's, or empty.
  std::string headers(std::string_view origin) const;

 private:
  std::vector<std::string> origins_;
  bool all_ = false;
};

}  // namespace mkc
