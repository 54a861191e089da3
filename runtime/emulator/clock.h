// Vector clocks of the race detector. A clock is shared by all who know the same, and never changed while
// shared: after a barrier of 256 threads, all hold one clock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace mkrt::emulator {

// agent -> the last of its epochs that is known.
using Clock = std::vector<uint32_t>;
using ClockRef = std::shared_ptr<const Clock>;  // null: knows nothing

// What a thread knows of the others, or what a synchronisation object passes on. `proxied`: the part that a
// proxy fence has made visible to bulk copies.
struct SyncClock {
  ClockRef all;
  ClockRef proxied;
};

// A moment of an agent: an access at it is known to clocks that reach it.
struct AgentEpoch {
  uint32_t agent = 0;
  uint32_t clock = 0;
};

inline bool knows(const ClockRef& clock, AgentEpoch epoch) {
  return clock != nullptr && (*clock)[epoch.agent] >= epoch.clock;
}

// The join of two clocks: one of them where it holds the other.
ClockRef join(const ClockRef& a, const ClockRef& b);
// `clock` with `epoch` known too; `agents` is the size of a clock.
ClockRef with(const ClockRef& clock, AgentEpoch epoch, uint32_t agents);

// Joins, remembering the last few: threads that know the same and learn the same go on sharing one clock.
class JoinCache {
 public:
  ClockRef join(const ClockRef& a, const ClockRef& b);

 private:
  static constexpr uint32_t kEntries = 8;
  struct Entry {
    ClockRef a, b, joined;
  };
  std::array<Entry, kEntries> entries_;
  uint32_t next_ = 0;
};

}  // namespace mkrt::emulator
