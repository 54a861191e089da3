// Accesses of task bodies and of the loader, held against what their tasks declare.
#pragma once

#include <cstdint>

#include "runtime/emulator/worker.h"

namespace mkrt::emulator {

constexpr uint32_t kNoSite = ~0u;

// Ends the launch where a thread that works for tasks touches what they do not declare. `site`: the line of
// the access, as the kernel numbers them. After a fault nothing is checked: waits fall through, and tables
// may say anything.
void check_access(const Fiber& fiber, const void* p, uint32_t bytes, uint32_t site, bool write);

}  // namespace mkrt::emulator
