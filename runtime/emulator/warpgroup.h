// Products of a warpgroup: begun by all of its 128 threads, done when they wait for them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/emulator/warp.h"

namespace mkrt::emulator {

constexpr uint32_t kGroupThreads = 128;

// d += a * b, m64n64k64. b is read and d written as late as may be: at the wait.
struct GroupProduct {
  bool f16 = false;
  const char* b = nullptr;
  std::array<float*, kGroupThreads> d{};
  std::array<std::array<uint32_t, 16>, kGroupThreads> a{};
};

struct WarpGroup {
  uint32_t arrived = 0;
  Collective collective = Collective::kNone;
  GroupProduct next;  // filled by those who arrive
  std::vector<GroupProduct> begun;
};

}  // namespace mkrt::emulator
