// The copy engine of a worker: copies that complete some time after their issue.
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
  uint32_t mbarrier;  // index; kNoMbarrier: a 16-byte copy, waited for by mk_async_arrive
  uint32_t thread;    // issuer
  uint64_t due_step;
  AgentEpoch epoch;     // race mode
  uint64_t serial = 0;  // of 16-byte copies
  bool held = false;    // by a disturbance: it does not complete by itself
  bool early = false;   // it was announced as complete
};
constexpr uint32_t kNoMbarrier = 0xffffffffu;

// An arrival that takes place once the thread's `missing` earlier 16-byte copies are complete.
struct AsyncArrival {
  uint32_t thread;
  uint32_t mbarrier;
  uint32_t missing;
  AgentEpoch epoch;     // race mode
  uint64_t serial = 0;  // of the last 16-byte copy before it
};

struct CopyEngine {
  std::vector<Copy> in_flight;
  std::vector<AsyncArrival> arrivals;
  uint64_t serial = 0;  // 16-byte copies issued so far
  uint64_t next_due = std::numeric_limits<uint64_t>::max();
};

// Completes the copies due at the worker's step.
void complete_due_copies(Worker& worker);
// Fails the launch if the worker ends before its copies do, or without a wait that would have made sure.
void check_copies_awaited(const Worker& worker);
// Completes the earliest copy in flight. False if there is none.
bool complete_next_copy(Worker& worker);

}  // namespace mkrt::emulator
