// Grids by name. Internal to the scheduler.
#pragma once

#include <string>
#include <vector>

#include "ir/tasks.h"

namespace mkc {

// Whether a name or a pattern with *, ? and [...] fits the grid.
bool is_named(const TaskGrid& grid, const std::string& pattern);

// Those that it fits. Errors: none, at the place of what asks for them.
Result<std::vector<GridId>> grids_named(const TaskProgram& program, const std::string& pattern,
                                        const Loc& loc);

}  // namespace mkc
