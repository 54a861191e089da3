// An mbarrier (PTX ISA, mbarrier) counts arrivals and bytes. A phase completes when all arrivals and all
// announced bytes are in.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/emulator/clock.h"

namespace mkrt::emulator {

struct Fiber;
struct Worker;

// PTX ISA, mbarrier: counts of arrivals are at most 2^20 - 1, and those of bytes within that of zero.
constexpr uint32_t kMaxArrivals = (1u << 20) - 1;
constexpr int64_t kMaxBytes = (1 << 20) - 1;

struct Mbarrier {
  uint64_t* word;  // in shared memory; holds a tag while the mbarrier exists
  uint32_t index;
  uint32_t arrivals;
  uint32_t pending;
  int64_t missing_bytes =
      0;  // announced and not yet copied; below 0 while copies run ahead of mk_mbar_expect
  uint32_t phase = 0;
  uint32_t copied_until = 0;  // the newest phase that had copies
  uint32_t seen_until = 0;    // the newest phase that a wait saw complete
  uint32_t initialiser;       // thread that initialised it
  bool fenced = false;        // the copy engine may use it
  std::vector<Fiber*> waiters;
  SyncClock arriving;   // race mode: knowledge of this phase's arrivals
  SyncClock completed;  // race mode: knowledge of the last completed phase's arrivals
};

struct MbarrierTable {
  std::vector<Mbarrier> all;
  std::vector<uint32_t> by_word;  // 1 + index in `all` for every 8 bytes of shared memory; 0: none
};

// Returns the live mbarrier at `word`. Fails the launch if there is none or its word was overwritten.
Mbarrier& find_mbarrier(Worker& worker, const uint64_t* word);
// Counts one arrival, and completes the phase if nothing else is missing. Some fiber must run, or an arrival
// be missing.
void arrive(Worker& worker, Mbarrier& bar);
// Counts `bytes` copied bytes, and completes the phase if nothing else is missing.
void complete_bytes(Worker& worker, Mbarrier& bar, uint32_t bytes);

}  // namespace mkrt::emulator
