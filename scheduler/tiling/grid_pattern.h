// Patterns select grids by name.
#pragma once

#include <string>
#include <vector>

#include "ir/tasks.h"

namespace mkc {

// Tells whether a name, or a pattern with *, ? and [...], fits the grid.
bool matches(const TaskGrid& grid, const std::string& pattern);

// Returns the kind of a layer's grid: "l*.attend" for "l3.attend". Returns "" for grids of no layer.
std::string layer_pattern(const TaskGrid& grid);

// Returns the grids that the pattern fits. Errors, at `loc`: no grid fits.
Result<std::vector<GridId>> matching_grids(const TaskProgram& program, const std::string& pattern,
                                           const Loc& loc);

}  // namespace mkc
