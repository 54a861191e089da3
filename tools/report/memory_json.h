// The report shows the memory that a schedule takes.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "tools/passes.h"

namespace mkc {

// Returns the bytes of keys and values of all requests of a step at full context. A session takes them in
// whole pages, of its default size here.
uint64_t full_cache_bytes(const Schedule& schedule);

// Returns bytes: of weights by kind, of the workspace, of keys and values, and of a worker's shared memory
// with its ring. Requires a compilation that has its schedule.
nlohmann::ordered_json memory_json(const Compilation& compilation);

}  // namespace mkc
