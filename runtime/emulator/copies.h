// A worker has a copy engine. Copies complete some time after their issue.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/emulator/clock.h"

namespace mkrt::emulator {

struct Worker;

struct Copy {
  char* destination;
  const char* source;  // read when the copy completes
  uint32_t bytes;
  uint32_t mbarrier;  // index; kNoMbarrier: a 16-byte copy, which mk_async_arrive waits for
  uint32_t thread;    // issuer
  // The copy is due at this number of switches of the worker.
  uint64_t due_step;
  AgentEpoch epoch;     // race mode
  uint64_t serial = 0;  // number among 16-byte copies
  bool held = false;    // by a disturbance: the copy does not complete by itself
  bool early = false;   // announced as complete before it is
};
constexpr uint32_t kNoMbarrier = 0xffffffffu;

// An AsyncArrival takes place once the thread's `missing` earlier 16-byte copies are complete.
struct AsyncArrival {
  uint32_t thread;
  uint32_t mbarrier;
  uint32_t missing;
  AgentEpoch epoch;     // race mode
  uint64_t serial = 0;  // of the newest 16-byte copy before it
};

struct CopyEngine {
  std::vector<Copy> in_flight;
  std::vector<AsyncArrival> arrivals;
  uint64_t serial = 0;  // 16-byte copies issued so far
  uint64_t next_due = std::numeric_limits<uint64_t>::max();
};

// Completes the copies that are due at the worker's number of switches.
void complete_due_copies(Worker& worker);
// Fails the launch if the worker ends before its copies do, or if no thread waited for all of them.
void check_copies_awaited(const Worker& worker);
// Completes the earliest copy in flight. Returns false if there is none, or if a disturbance holds it.
bool complete_next_copy(Worker& worker);

}  // namespace mkrt::emulator
