// The report shows the memory that a schedule takes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tools/passes.h"

namespace mkc {

// Returns bytes: of weights by kind, of the workspace, of keys and values, and of a worker's shared memory
// with its ring. Requires a compilation that has its schedule.
nlohmann::ordered_json memory_json(const Compilation& compilation);

}  // namespace mkc
