// Threads of a launch access the words that they share atomically: counters of events, tickets and logs.
#pragma once

#include <atomic>
#include <cstdint>

namespace mkrt::emulator {

inline std::atomic_ref<uint32_t> atomic(const uint32_t* p) {
  return std::atomic_ref<uint32_t>(*const_cast<uint32_t*>(p));
}

}  // namespace mkrt::emulator
