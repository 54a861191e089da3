// The GPU has global memory, and CTAs may still see some of its past.
//
// Every store that reaches memory has a number. A lane's view is such a number: the lane sees all stores up
// to it. A lane may see old values in place of later stores, as far back as they are kept.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace softgpu {

constexpr uint32_t kSector = 32;  // bytes of a sector; memory remembers the last store of each

struct Allocation {
  uint64_t begin = 0, bytes = 0;
  std::vector<uint32_t> last_store;  // number of the last store, by sector
  uint32_t newest_store = 0;
};

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  // Returns 0 where there is no memory. The bytes begin as 0xff, which is NaN in every floating-point type.
  // No other block follows the block directly.
  uint64_t allocate(uint64_t bytes);
  bool release(uint64_t address);
  size_t allocations() const { return blocks_.size(); }
  // Returns the allocation that holds all of the bytes, or nullptr.
  Allocation* find(uint64_t address, uint64_t bytes);

  // Stores up to 16 bytes of CTA `cta`. The bytes that were there are kept for lanes that may still see them.
  void store(uint64_t address, const void* from, uint32_t bytes, uint32_t cta, uint64_t turn);
  // Writes without a past: for the host, or where nobody may see old values.
  void overwrite(uint64_t address, const void* from, uint64_t bytes);
  uint32_t stores() const { return stores_; }
  uint32_t last_store(const Allocation& a, uint64_t address, uint32_t bytes) const;

  // Rewinds `value`, the bytes at `address` now, to store number `as_of`. Stops at stores of the reader's own
  // CTA and where old values are not kept any more. Returns the number of the last store that `value` shows.
  uint32_t go_back(uint64_t address, uint32_t bytes, uint32_t as_of, uint32_t cta, uint64_t turn,
                   uint8_t* value) const;
  // Forgets old values. Nobody sees the past between launches.
  void forget() { past_.clear(); }

 private:
  struct Past {
    uint64_t address, turn;
    uint32_t number, cta;
    uint8_t bytes, before[16];
  };
  void remember(uint64_t address, uint32_t bytes, uint32_t cta, uint64_t turn);

  std::map<uint64_t, std::unique_ptr<Allocation>> blocks_;
  Allocation* last_ = nullptr;
  uint32_t stores_ = 0;
  std::unordered_map<uint64_t, std::vector<Past>> past_;  // old values, by sector
};

}  // namespace softgpu
