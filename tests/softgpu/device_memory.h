// The GPU's global memory, and what CTAs may still see of its past.
//
// Every store that reaches memory has a number. A lane has a view: all stores up to that number are seen by
// it for certain. Of later ones it may see old values, as far back as they are kept.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace softgpu {

constexpr uint32_t kSector = 32;  // bytes for which the last store is remembered

struct Allocation {
  uint64_t begin = 0, bytes = 0;
  std::vector<uint32_t> last_store;  // by sector
  uint32_t newest_store = 0;
};

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  // 0: there is no memory. Bytes are 0xff, which is NaN in every type.
  uint64_t allocate(uint64_t bytes);
  bool release(uint64_t address);
  // The allocation that holds all of the bytes, or nullptr.
  Allocation* find(uint64_t address, uint64_t bytes);

  // Stores up to 16 bytes for a CTA, which keeps what was there for those who may still see it.
  void store(uint64_t address, const void* from, uint32_t bytes, uint32_t cta, uint64_t turn);
  // Writes without a past: by the host, or where nobody may see old values.
  void overwrite(uint64_t address, const void* from, uint64_t bytes);
  uint32_t stores() const { return stores_; }
  uint32_t last_store(const Allocation& a, uint64_t address, uint32_t bytes) const;

  // Turns `value`, the bytes at `address` now, into those as of store number `as_of`, where they are still
  // kept and no later store is of the reader's own CTA. Returns the number of the last store that it shows.
  uint32_t go_back(uint64_t address, uint32_t bytes, uint32_t as_of, uint32_t cta, uint64_t turn,
                   uint8_t* value) const;
  // Between launches nobody sees the past.
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
  std::unordered_map<uint64_t, std::vector<Past>> past_;  // by sector
};

}  // namespace softgpu
