#include "scheduler/tiling/grid_pattern.h"

#include <fmt/format.h>
#include <fnmatch.h>

namespace mkc {

bool matches(const TaskGrid& grid, const std::string& pattern) {
  return fnmatch(pattern.c_str(), grid.name.c_str(), 0) == 0;
}

std::string layer_pattern(const TaskGrid& grid) {
  const size_t dot = grid.name.find('.');
  return grid.layer < 0 || dot == std::string::npos ? "" : "l*" + grid.name.substr(dot);
}

Result<std::vector<GridId>> matching_grids(const TaskProgram& program, const std::string& pattern,
                                           const Loc& loc) {
  std::vector<GridId> grids;
  std::vector<std::string> names;
  for (GridId id : program.grids.ids()) {
    names.push_back(program.grids[id].name);
    if (matches(program.grids[id], pattern)) grids.push_back(id);
  }
  if (!grids.empty()) return grids;
  const std::string near = nearest_name(pattern, names);
  return error_at(loc, fmt::format("no grid is named '{}'{}", pattern,
                                   near.empty() ? "" : fmt::format(", did you mean '{}'?", near)));
}

}  // namespace mkc
