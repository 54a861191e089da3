#include "tests/softgpu/views.h"

#include <algorithm>
#include <cstring>

#include "tests/softgpu/race.h"

namespace softgpu {
namespace {

constexpr size_t kBuffered = 512;  // stores in a CTA's buffer above which it drains faster

}  // namespace

void join_warp(Warp& w, uint32_t lanes) {
  Seen all;
  each_lane(lanes, [&](uint32_t l) { all.join(w.seen[l]); });
  all.warps[w.index] = w.cta->stores.last_number();
  each_lane(lanes, [&](uint32_t l) { w.seen[l] = all; });
  if (Race* race = w.cta->grid->race.get()) race->join_warp(w, lanes);
}

void join_barrier(const std::vector<Warp*>& warps) {
  Seen all;
  for (const Warp* w : warps) {
    for (const Seen& s : w->seen) all.join(s);
    all.warps[w->index] = w->cta->stores.last_number();
  }
  for (Warp* w : warps) w->seen.fill(all);
  if (Race* race = warps.front()->cta->grid->race.get()) race->join_barrier(warps);
}

Seen known_to(const Warp& w, uint32_t lane) {
  Seen s = w.seen[lane];
  s.warps[w.index] = w.cta->stores.last_number();
  return s;
}

void acquire_memory(Warp& w, uint32_t lanes, Scope scope) {
  if (scope == Scope::kCta) return;
  const uint32_t now = w.machine().memory.stores();
  each_lane(lanes, [&](uint32_t l) { w.seen[l].memory = now; });
}

void release_memory(Warp& w, uint32_t lane, Scope scope) {
  if (scope == Scope::kCta) return;
  const Seen& seen = w.seen[lane];
  w.cta->stores.drain(w.machine().memory, w.cta->id, w.machine().turns(), [&](const PendingStore& s) {
    return s.number <= seen.warps[s.warp] || (s.warp == w.index && s.lane == lane);
  });
}

void drain_bytes(Cta& cta, uint64_t address, uint32_t bytes) {
  if (!cta.stores.may_hold(address)) return;
  Machine& m = *cta.grid->machine;
  cta.stores.drain(m.memory, cta.id, m.turns(), [&](const PendingStore& s) {
    return s.address < address + bytes && address < s.address + s.bytes;
  });
}

void drain_some(Cta& cta) {
  Machine& m = *cta.grid->machine;
  const bool full = cta.stores.size() > kBuffered;
  cta.stores.drain(m.memory, cta.id, m.turns(),
                   [&](const PendingStore&) { return m.draw(full ? 2 : 8) == 0; });
}

void read_memory(Cta& cta, uint32_t view, uint64_t address, uint32_t bytes, uint8_t* out) {
  Machine& m = *cta.grid->machine;
  std::memcpy(out, reinterpret_cast<const void*>(address), bytes);
  const Allocation* a = m.memory.find(address, bytes);
  if (a && m.memory.last_store(*a, address, bytes) > view && m.draw(2) == 0) {
    const uint32_t as_of = view + m.draw(m.memory.stores() - view + 1);
    if (m.memory.go_back(address, bytes, as_of, cta.id, m.turns(), out) != m.memory.stores())
      ++m.statistics.stale_loads;
  }
  if (cta.stores.may_hold(address)) cta.stores.overlay(address, bytes, out);
}

void read_coherent(Cta& cta, uint32_t view, uint64_t address, uint32_t bytes, uint8_t* out) {
  Machine& m = *cta.grid->machine;
  uint32_t& floor = cta.newest_seen[address];
  floor = std::max(floor, view);
  std::memcpy(out, reinterpret_cast<const void*>(address), bytes);
  uint32_t shown = m.memory.stores();
  if (floor < shown && m.draw(2) == 0) {
    shown = m.memory.go_back(address, bytes, floor + m.draw(shown - floor + 1), cta.id, m.turns(), out);
    m.statistics.stale_loads += shown != m.memory.stores();
  }
  floor = shown;
  if (cta.stores.may_hold(address)) cta.stores.overlay(address, bytes, out);
}

}  // namespace softgpu
