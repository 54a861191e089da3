#include "scheduler/simulate/simulate_timers.h"

namespace mkc {
namespace {

constexpr size_t kKeptTimers = 1024;  // timers that were removed leave the memory together

}  // namespace

void TimerQueue::remove_first() {
  ++fired_;
  if (fired_ < kKeptTimers || 2 * fired_ <= timers_.size()) return;
  timers_.erase(timers_.begin(), timers_.begin() + static_cast<ptrdiff_t>(fired_));
  fired_ = 0;
}

void TimerQueue::add(const Timer& timer) {
  timers_.push_back(timer);
  size_t at = timers_.size() - 1;
  for (; at > fired_ && timer < timers_[at - 1]; --at) timers_[at] = timers_[at - 1];
  timers_[at] = timer;
}

}  // namespace mkc
