#include "tests/softgpu/banks.h"

#include <algorithm>
#include <vector>

namespace softgpu {
namespace {

constexpr uint32_t kBanks = 32, kWordBytes = 4;

// Returns how many lanes one wavefront can serve at `bytes` a lane.
uint32_t lanes_at_once(uint32_t bytes) {
  return bytes <= kWordBytes ? 32 : kBanks * kWordBytes / bytes;
}

uint32_t active_groups(uint32_t lanes, uint32_t bytes) {
  const uint32_t size = lanes_at_once(bytes);
  uint32_t groups = 0;
  for (uint32_t first = 0; first < 32; first += size)
    groups += (lanes >> first & static_cast<uint32_t>((uint64_t{1} << size) - 1)) != 0;
  return groups;
}

}  // namespace

uint32_t wavefronts(const Addresses& a, uint32_t lanes, uint32_t bytes) {
  const uint32_t size = lanes_at_once(bytes);
  uint32_t all = 0;
  for (uint32_t first = 0; first < 32; first += size) {
    std::vector<uint64_t> words;
    for (uint32_t lane = first; lane < first + size; ++lane)
      if (lanes >> lane & 1)
        for (uint32_t b = 0; b < bytes; b += kWordBytes) words.push_back((a.at[lane] + b) / kWordBytes);
    std::ranges::sort(words);
    words.erase(std::ranges::unique(words).begin(), words.end());
    uint32_t of_bank[kBanks] = {};
    for (const uint64_t word : words) ++of_bank[word % kBanks];
    all += *std::ranges::max_element(of_bank);
  }
  return all;
}

void count_banks(Warp& w, const Instruction& i, const Addresses& a, uint32_t lanes, uint32_t bytes) {
  BankCount& count = w.machine().banks[i.line];
  ++count.accesses;
  count.wavefronts += wavefronts(a, lanes, bytes);
  count.min += active_groups(lanes, bytes);
}

}  // namespace softgpu
