// The race detector uses vector clocks. Agents with equal knowledge share one clock, and a shared clock is
// never changed. After a barrier of 256 threads all hold one clock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace mkrt::emulator {

// AgentEpoch is a moment of an agent. An access at that moment is known to clocks that reach it.
struct AgentEpoch {
  uint32_t agent = 0;
  uint32_t clock = 0;
};

// A Clock maps an agent to the newest of its epochs that is known, or to 0. Agents are in parts of kPart.
// Clocks share parts in which they are equal, so that a copy and a join cost little where few workers differ.
// One thread uses clocks.
class Clock {
 public:
  explicit Clock(uint32_t agents) : parts_((agents + kPart - 1) / kPart) {}
  uint32_t operator[](uint32_t agent) const {
    const Part* part = parts_[agent / kPart].get();
    return part == nullptr ? 0 : (*part)[agent % kPart];
  }
  // Tells whether agents are known up to `clock`: those of the 32 from `first` on whose bits are set. `first`
  // is a multiple of 32.
  bool knows_all(uint32_t first, uint32_t agents, uint32_t clock) const;
  void learn(AgentEpoch epoch);
  void learn(const Clock& other);  // a clock of as many agents

 private:
  // A worker has 256 threads or more. A part is small enough for the fast lists of malloc().
  static constexpr uint32_t kPart = 128;
  using Part = std::array<uint32_t, kPart>;
  std::vector<std::shared_ptr<Part>> parts_;  // null: nothing is known
};
using ClockRef = std::shared_ptr<const Clock>;  // null: nothing is known

// SyncClock is a thread's knowledge of other agents, or the knowledge that a synchronisation object passes
// on. `proxied` is the part whose accesses of shared memory a proxy fence has made visible to bulk copies.
struct SyncClock {
  ClockRef all;
  ClockRef proxied;
};

inline bool knows(const ClockRef& clock, AgentEpoch epoch) {
  return clock != nullptr && (*clock)[epoch.agent] >= epoch.clock;
}

// Returns the join of two clocks. The result is one of the two where the other is null or the same object.
ClockRef join(const ClockRef& a, const ClockRef& b);
// Returns `clock` with `epoch` known, too. `agents` is the size of a clock.
ClockRef with(const ClockRef& clock, AgentEpoch epoch, uint32_t agents);

// JoinCache joins clocks and remembers the newest joins. Threads with equal clocks that learn the same clock
// thus continue to share one.
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
