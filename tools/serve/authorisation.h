// A server with an API key answers those who give it.
#pragma once

#include <string_view>

namespace mkc {

// Tells whether the header Authorization gives the key. A server without a key, "", answers everybody.
bool is_authorised(std::string_view header, std::string_view api_key);

}  // namespace mkc
