#include "tests/softgpu/store_buffer.h"

#include <algorithm>
#include <cstring>

namespace softgpu {

void StoreBuffer::add(uint64_t address, const void* from, uint32_t bytes, uint32_t warp, uint32_t lane) {
  PendingStore s{
      address, number_, static_cast<uint16_t>(warp), static_cast<uint8_t>(lane), static_cast<uint8_t>(bytes),
      {}};
  std::memcpy(s.data, from, bytes);
  stores_.push_back(s);
  ++filter_[bucket(address)];
}

void StoreBuffer::overlay(uint64_t address, uint32_t bytes, uint8_t* value) const {
  for (const PendingStore& s : stores_) {
    if (s.address >= address + bytes || s.address + s.bytes <= address) continue;
    for (uint64_t b = std::max(s.address, address); b < std::min(s.address + s.bytes, address + bytes); ++b)
      value[b - address] = s.data[b - s.address];
  }
}

void StoreBuffer::take(DeviceMemory& memory, uint32_t cta, uint64_t turn, const std::vector<uint8_t>& goes) {
  size_t kept = 0;
  for (size_t n = 0; n < stores_.size(); ++n) {
    if (!goes[n]) {
      stores_[kept++] = stores_[n];
      continue;
    }
    --filter_[bucket(stores_[n].address)];
    memory.store(stores_[n].address, stores_[n].data, stores_[n].bytes, cta, turn);
  }
  stores_.resize(kept);
}

}  // namespace softgpu
