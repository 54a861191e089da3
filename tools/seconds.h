// seconds_since() is elapsed wall-clock time.
#pragma once

#include <chrono>

namespace mkc {

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace mkc
