#include "tests/softgpu/address.h"

#include <algorithm>

#include "tests/softgpu/banks.h"

namespace softgpu {

Addresses addresses_of(Warp& w, const Instruction& i, uint32_t n, uint32_t d, uint32_t lanes) {
  Addresses a;
  const Operand& o = w.operand(i, n);
  const uint64_t add = static_cast<uint64_t>(i.displacement[d]);
  if (o.bytes == 4) {
    const uint32_t* p = w.at<uint32_t>(o);
    each_lane(lanes, [&](uint32_t l) { a.at[l] = p[l] + add; });
  } else {
    const uint64_t* p = w.at<uint64_t>(o);
    each_lane(lanes, [&](uint32_t l) { a.at[l] = p[l] + add; });
  }
  return a;
}

Allocation* check_global(Warp& w, const Instruction& i, const Addresses& a, uint32_t lanes, uint32_t bytes) {
  uint64_t low = ~0ull, high = 0, bits = 0;
  each_lane(lanes, [&](uint32_t l) {
    low = std::min(low, a.at[l]);
    high = std::max(high, a.at[l]);
    bits |= a.at[l];
  });
  Machine& m = w.machine();
  if (bits % bytes != 0) m.fault(&w, &i, "misaligned address within " + hex(low) + " to " + hex(high));
  if (Allocation* block = m.memory.find(low, high - low + bytes)) return block;
  each_lane(lanes, [&](uint32_t l) {
    if (!m.memory.find(a.at[l], bytes))
      m.fault(&w, &i, "illegal address " + hex(a.at[l]) + " in lane " + std::to_string(l));
  });
  return nullptr;  // lanes access several allocations
}

void check_shared(Warp& w, const Instruction& i, Addresses& a, uint32_t lanes, uint32_t bytes) {
  Cta& cta = *w.cta;
  each_lane(lanes, [&](uint32_t l) {
    const uint64_t offset = a.at[l] - kSharedBase;
    if (a.at[l] % bytes != 0) w.machine().fault(&w, &i, "misaligned shared address " + hex(a.at[l]));
    if (offset >= cta.shared.size() || bytes > cta.shared.size() - offset)
      w.machine().fault(&w, &i, "address " + hex(a.at[l]) + " is outside of shared memory");
    for (uint64_t word = offset / 8; word <= (offset + bytes - 1) / 8; ++word)
      if (cta.holds_mbarrier[word]) w.machine().fault(&w, &i, "plain access to an mbarrier");
    a.at[l] = offset;
  });
  if (!w.machine().settings.banks.empty()) count_banks(w, i, a, lanes, bytes);
}

}  // namespace softgpu
