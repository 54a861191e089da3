// The timers of a simulation fire in the order of their times. This header is internal to simulate.
#pragma once

#include <cstdint>

#include "scheduler/simulate/sorted_queue.h"

namespace mkc {

struct Timer {
  enum Kind : uint8_t { kConsumer, kLoader, kTile, kCold };
  double at_ns = 0;
  uint64_t number : 40 = 0;  // orders timers of the same time by their creation
  uint64_t kind : 4 = kConsumer;
  uint64_t worker : 20 = 0;
  bool operator<(const Timer& o) const { return at_ns < o.at_ns || (at_ns == o.at_ns && number < o.number); }
};

using TimerQueue = SortedQueue<Timer>;

}  // namespace mkc
