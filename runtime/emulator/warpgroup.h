// A warpgroup multiplies asynchronously. All 128 threads of the group begin a product, and the product is
// done when the threads wait for it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/emulator/warp.h"

namespace mkrt::emulator {

constexpr uint32_t kGroupThreads = 128;

// GroupProduct is d += a * b, m64n64k64. The emulator reads b and writes d as late as possible: at the wait.
struct GroupProduct {
  bool f16 = false;
  const char* b = nullptr;
  std::array<float*, kGroupThreads> d{};
  std::array<std::array<uint32_t, 16>, kGroupThreads> a{};
};

struct WarpGroup {
  uint32_t arrived = 0;
  Collective collective = Collective::kNone;
  GroupProduct next;  // filled by threads that arrive
  std::vector<GroupProduct> begun;
};

}  // namespace mkrt::emulator
