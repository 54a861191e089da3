// A CTA buffers stores that other CTAs do not see yet.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/softgpu/device_memory.h"

namespace softgpu {

struct PendingStore {
  uint64_t address = 0;
  uint32_t number = 0;  // number of its instruction within the CTA
  uint16_t warp = 0;
  uint8_t lane = 0, bytes = 0;
  uint8_t data[16] = {};
};

class StoreBuffer {
 public:
  bool empty() const { return stores_.empty(); }
  size_t size() const { return stores_.size(); }
  uint32_t last_number() const { return number_; }
  void begin_instruction() { ++number_; }
  void add(uint64_t address, const void* from, uint32_t bytes, uint32_t warp, uint32_t lane);
  // Returns whether a store of the sector may be under way.
  bool may_hold(uint64_t address) const { return !stores_.empty() && (filter_[bucket(address)] != 0); }
  // Puts the CTA's waiting stores over `value`, which memory holds at `address`.
  void overlay(uint64_t address, uint32_t bytes, uint8_t* value) const;

  // Gives memory the stores for which `wanted` holds, in order, with earlier stores of the same sectors.
  template <class Wanted>
  void drain(DeviceMemory& memory, uint32_t cta, uint64_t turn, Wanted wanted) {
    if (stores_.empty()) return;
    std::vector<uint8_t> goes(stores_.size());
    for (size_t n = stores_.size(); n-- > 0;) {
      if (!goes[n] && wanted(stores_[n])) goes[n] = 1;
      if (goes[n] && filter_[bucket(stores_[n].address)] > 1)
        for (size_t e = 0; e < n; ++e)
          goes[e] |= stores_[e].address / kSector == stores_[n].address / kSector;
    }
    take(memory, cta, turn, goes);
  }
  void drain_all(DeviceMemory& memory, uint32_t cta, uint64_t turn) {
    drain(memory, cta, turn, [](const PendingStore&) { return true; });
  }

 private:
  static uint32_t bucket(uint64_t address) { return static_cast<uint32_t>(address / kSector % 1024); }
  void take(DeviceMemory& memory, uint32_t cta, uint64_t turn, const std::vector<uint8_t>& goes);

  std::vector<PendingStore> stores_;
  std::vector<uint16_t> filter_ = std::vector<uint16_t>(1024);  // number of stores, by a hash of their sector
  uint32_t number_ = 0;
};

}  // namespace softgpu
