// Grids by name.
#pragma once

#include <string>
#include <vector>

#include "ir/tasks.h"

namespace mkc {

// Whether a name or a pattern with *, ? and [...] fits the grid.
bool matches(const TaskGrid& grid, const std::string& pattern);

// "l*.attend" for "l3.attend", the kind of a layer's grids; "" for grids of no layer.
std::string layer_pattern(const TaskGrid& grid);

// Those that it fits. Errors: none, at the place of what asks for them.
Result<std::vector<GridId>> matching_grids(const TaskProgram& program, const std::string& pattern,
                                           const Loc& loc);

}  // namespace mkc
