// ceil_of() divides and rounds up.
#pragma once

#include <cstdint>

namespace mkc {

constexpr int64_t ceil_of(int64_t n, int64_t by) {
  return (n + by - 1) / by;
}

}  // namespace mkc
