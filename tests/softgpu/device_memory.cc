#include "tests/softgpu/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace softgpu {
namespace {

constexpr uint64_t kPage = 4096;
// A block begins at a multiple of 256, as CUDA promises, and not at one of 512.
constexpr uint64_t kSkipped = 256;
constexpr size_t kKept = 12;        // old values that are kept of a sector, at most
constexpr uint64_t kTurns = 20000;  // turns for which old values stay visible, at most

// Returns the bytes of a block's pages, without the one behind them that nobody may touch.
uint64_t mapped(uint64_t bytes) {
  return (kSkipped + bytes + kPage - 1) / kPage * kPage;
}

void unmap(uint64_t begin, uint64_t bytes) {
  munmap(reinterpret_cast<void*>(begin - kSkipped), mapped(bytes) + kPage);
}

}  // namespace

DeviceMemory::~DeviceMemory() {
  for (const auto& [begin, block] : blocks_) unmap(begin, block->bytes);
}

uint64_t DeviceMemory::allocate(uint64_t bytes) {
  void* pages =
      mmap(nullptr, mapped(bytes) + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return 0;
  if (mprotect(pages, mapped(bytes), PROT_READ | PROT_WRITE) != 0) {
    munmap(pages, mapped(bytes) + kPage);
    return 0;
  }
  char* p = static_cast<char*>(pages) + kSkipped;
  std::memset(p, 0xff, bytes);
  auto block = std::make_unique<Allocation>();
  block->begin = reinterpret_cast<uint64_t>(p);
  block->bytes = bytes;
  block->last_store.assign(bytes / kSector + 1, 0);
  const uint64_t begin = block->begin;
  blocks_[begin] = std::move(block);
  return begin;
}

bool DeviceMemory::release(uint64_t address) {
  const auto at = blocks_.find(address);
  if (at == blocks_.end()) return false;
  unmap(address, at->second->bytes);
  blocks_.erase(at);
  last_ = nullptr;
  return true;
}

Allocation* DeviceMemory::find(uint64_t address, uint64_t bytes) {
  if (!last_ || address - last_->begin >= last_->bytes) {
    auto at = blocks_.upper_bound(address);
    if (at == blocks_.begin()) return nullptr;
    last_ = (--at)->second.get();
  }
  const uint64_t offset = address - last_->begin;
  return offset <= last_->bytes && bytes <= last_->bytes - offset ? last_ : nullptr;
}

void DeviceMemory::remember(uint64_t address, uint32_t bytes, uint32_t cta, uint64_t turn) {
  std::vector<Past>& past = past_[address / kSector];
  if (past.size() >= kKept || (!past.empty() && past.front().turn + kTurns < turn)) past.erase(past.begin());
  Past p{address, turn, stores_, cta, static_cast<uint8_t>(bytes), {}};
  std::memcpy(p.before, reinterpret_cast<const void*>(address), bytes);
  past.push_back(p);
}

void DeviceMemory::store(uint64_t address, const void* from, uint32_t bytes, uint32_t cta, uint64_t turn) {
  Allocation* a = find(address, bytes);
  if (!a) return;  // the allocation was released since
  ++stores_;
  remember(address, bytes, cta, turn);
  for (uint64_t s = (address - a->begin) / kSector; s <= (address - a->begin + bytes - 1) / kSector; ++s)
    a->last_store[s] = stores_;
  a->newest_store = stores_;
  std::memcpy(reinterpret_cast<void*>(address), from, bytes);
}

void DeviceMemory::overwrite(uint64_t address, const void* from, uint64_t bytes) {
  std::memcpy(reinterpret_cast<void*>(address), from, bytes);
}

uint32_t DeviceMemory::last_store(const Allocation& a, uint64_t address, uint32_t bytes) const {
  const uint64_t first = (address - a.begin) / kSector, last = (address - a.begin + bytes - 1) / kSector;
  return std::max(a.last_store[first], a.last_store[last]);
}

uint32_t DeviceMemory::go_back(uint64_t address, uint32_t bytes, uint32_t as_of, uint32_t cta, uint64_t turn,
                               uint8_t* value) const {
  // A warp's accesses are aligned to their size, so each lies within one sector.
  const auto at = past_.find(address / kSector);
  uint32_t shown = stores_;
  if (at == past_.end()) return shown;
  for (size_t n = at->second.size(); n-- > 0;) {
    const Past& p = at->second[n];
    if (p.address >= address + bytes || p.address + p.bytes <= address) continue;
    if (p.number <= as_of || p.cta == cta || p.turn + kTurns < turn) break;
    for (uint64_t b = std::max(p.address, address); b < std::min(p.address + p.bytes, address + bytes); ++b)
      value[b - address] = p.before[b - p.address];
    shown = p.number - 1;
  }
  return shown;
}

}  // namespace softgpu
