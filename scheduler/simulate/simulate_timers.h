// The timers of a simulation fire in the order of their times. This header is internal to simulate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mkc {

struct Timer {
  enum Kind : uint8_t { kConsumer, kLoader, kTile, kCold };
  double at_ns = 0;
  uint64_t number : 40 = 0;  // orders timers of the same time by their creation
  uint64_t kind : 4 = kConsumer;
  uint64_t worker : 20 = 0;
  bool operator<(const Timer& o) const { return at_ns < o.at_ns || (at_ns == o.at_ns && number < o.number); }
};

// TimerQueue keeps timers in order. Most timers fire after nearly all others that are set, so that a timer is
// inserted near the end of the queue.
class TimerQueue {
 public:
  bool empty() const { return fired_ == timers_.size(); }
  const Timer& first() const { return timers_[fired_]; }  // requires that the queue is not empty
  void remove_first();                                    // requires that the queue is not empty
  void add(const Timer& timer);

 private:
  size_t fired_ = 0;  // entries of timers_ that were removed
  std::vector<Timer> timers_;
};

}  // namespace mkc
