#include "runtime/emulator/clock.h"

#include <algorithm>

namespace mkrt::emulator {

ClockRef join(const ClockRef& a, const ClockRef& b) {
  if (a == b || b == nullptr) return a;
  if (a == nullptr) return b;
  auto joined = std::make_shared<Clock>(*a);
  for (size_t i = 0; i < joined->size(); ++i) (*joined)[i] = std::max((*joined)[i], (*b)[i]);
  return joined;
}

ClockRef with(const ClockRef& clock, AgentEpoch epoch, uint32_t agents) {
  auto extended = clock != nullptr ? std::make_shared<Clock>(*clock) : std::make_shared<Clock>(agents);
  uint32_t& known = (*extended)[epoch.agent];
  known = std::max(known, epoch.clock);
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
