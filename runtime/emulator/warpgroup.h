// A warpgroup multiplies asynchronously. All 128 threads of the group begin a product, and the product is
// done when the threads wait for it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/emulator/warp.h"

namespace mkrt::emulator {

constexpr uint32_t kGroupThreads = 128;

// GroupType is the type of a product's elements.
struct GroupType {
  Collective collective = Collective::kNone;
  float (*to_float)(uint32_t) = nullptr;  // from an element's bits
  uint32_t bytes = 0;                     // of an element
};

// GroupProduct is d += a * b, m64n64k64. The emulator reads b and writes d as late as possible: at the wait.
struct GroupProduct {
  const GroupType* type = nullptr;
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
