#include "runtime/emulator/clock.h"

#include <algorithm>
#include <bit>

namespace mkrt::emulator {

bool Clock::knows_all(uint32_t first, uint32_t agents, uint32_t clock) const {
  static_assert(kPart % 32 == 0);
  const Part* part = parts_[first / kPart].get();
  if (part == nullptr) return clock == 0;
  const uint32_t* epochs = part->data() + first % kPart;
  for (; agents != 0; agents &= agents - 1)
    if (epochs[std::countr_zero(agents)] < clock) return false;
  return true;
}

void Clock::learn(AgentEpoch epoch) {
  if ((*this)[epoch.agent] >= epoch.clock) return;
  std::shared_ptr<Part>& part = parts_[epoch.agent / kPart];
  if (part == nullptr)
    part = std::make_shared<Part>();
  else if (part.use_count() > 1)
    part = std::make_shared<Part>(*part);
  (*part)[epoch.agent % kPart] = epoch.clock;
}

void Clock::learn(const Clock& other) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    std::shared_ptr<Part>& mine = parts_[i];
    const std::shared_ptr<Part>& others = other.parts_[i];
    if (mine == others || others == nullptr) continue;
    if (mine == nullptr) {
      mine = others;
      continue;
    }
    Part joined;
    for (uint32_t agent = 0; agent < kPart; ++agent)
      joined[agent] = std::max((*mine)[agent], (*others)[agent]);
    if (joined == *mine) continue;
    mine = joined == *others ? others : std::make_shared<Part>(joined);
  }
}

ClockRef join(const ClockRef& a, const ClockRef& b) {
  if (a == b || b == nullptr) return a;
  if (a == nullptr) return b;
  auto joined = std::make_shared<Clock>(*a);
  joined->learn(*b);
  return joined;
}

ClockRef with(const ClockRef& clock, AgentEpoch epoch, uint32_t agents) {
  auto extended = clock != nullptr ? std::make_shared<Clock>(*clock) : std::make_shared<Clock>(agents);
  extended->learn(epoch);
  return extended;
}

ClockRef JoinCache::join(const ClockRef& a, const ClockRef& b) {
  if (a == b || b == nullptr) return a;
  if (a == nullptr) return b;
  for (const Entry& entry : entries_)
    if (entry.a == a && entry.b == b) return entry.joined;
  Entry& entry = entries_[next_++ % kEntries];
  entry = {a, b, emulator::join(a, b)};
  return entry.joined;
}

}  // namespace mkrt::emulator
