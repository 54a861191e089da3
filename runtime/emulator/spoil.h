// Memory that nobody may read before it is written holds NaN in every floating-point type, and integers that
// are no index: what a task reads of it shows in its results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace mkrt {

void spoil(void* p, size_t bytes);

namespace emulator {

struct Worker;

// What a worker knows of memory that its tasks have left.
struct SpoilState {
  // A barrier lies behind all tasks that have begun: what they left is read by nobody.
  bool between_tasks = false;
  uint32_t spoils = 0;                                // calls of mk_spoil, of the thread that has most
  std::unordered_map<const char*, uint32_t> readers;  // by address: calls of mk_spoil_last
};

// Threads of the worker have met.
void note_barrier(Worker& worker);

}  // namespace emulator
}  // namespace mkrt
