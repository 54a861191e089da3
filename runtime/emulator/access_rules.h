// Accesses by task bodies and loaders are checked against the accesses that their tasks declare.
#pragma once

#include <cstdint>

#include "runtime/emulator/worker.h"

namespace mkrt::emulator {

constexpr uint32_t kNoSite = ~0u;

// Ends the launch if a thread that works for tasks touches bytes that they do not declare. `site` is the
// kernel's number of the access's source line. Nothing is checked after a fault: waits fall through then, and
// tables may hold anything.
void check_access(const Fiber& fiber, const void* p, uint32_t bytes, uint32_t site, bool write);

}  // namespace mkrt::emulator
