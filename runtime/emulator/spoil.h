// Memory is spoilt where no task may read it before it is written. Spoilt memory holds NaN in every
// floating-point type, and integers that are no index. A task that reads it therefore has visibly wrong
// results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace mkrt {

// Spoils the bytes.
void spoil(void* p, size_t bytes);

namespace emulator {

struct Worker;

// SpoilState is a worker's knowledge of memory that its tasks have left.
struct SpoilState {
  // Set when a barrier lies behind all tasks that have begun: no task reads what they left.
  bool between_tasks = false;
  uint32_t spoils = 0;                                // calls of mk_spoil by the thread with the most calls
  std::unordered_map<const char*, uint32_t> readers;  // by address: calls of mk_spoil_last
};

// Records that threads of the worker have met at a barrier.
void note_barrier(Worker& worker);

}  // namespace emulator
}  // namespace mkrt
