#include "tools/serve/authorisation.h"

#include "tools/serve/lower_case.h"

namespace mkc {
namespace {

// Compares in a time that depends on the lengths alone.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned differ = a.size() != b.size();
  for (size_t i = 0; i < a.size(); ++i)
    differ |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return differ == 0;
}

}  // namespace

bool is_authorised(std::string_view header, std::string_view api_key) {
  static constexpr std::string_view kBearer = "bearer ";  // in any case (RFC 9110, section 11.1)
  const std::string scheme = lower_case(std::string(header.substr(0, kBearer.size())));
  return api_key.empty() ||
         (scheme == kBearer && equal_in_constant_time(header.substr(kBearer.size()), api_key));
}

}  // namespace mkc
