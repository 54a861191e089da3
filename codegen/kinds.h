// Kinds: grids that one piece of code serves, up to the numbers of a grid record (runtime/abi/abi.h).
#pragma once

#include <cstdint>
#include <vector>

#include "ir/schedule.h"

namespace mkc {

struct Kinds {
  std::vector<uint32_t> of_grid;  // by GridId
  std::vector<GridId> first;      // by kind: the grid that stands for it
  // The kinds that share one piece of code in the one kernel, as the grids that stand for them; each kind is
  // in one. What depends on the kind within it is chosen at run time.
  std::vector<std::vector<GridId>> shared_code_groups;
};

// Two grids are of one kind if they have the same body, attributes, coordinates, placement, and operands of
// the same roles, types and shapes in the same kinds of memory, and wait for and notify events of the same
// dims and counts by the same maps, logged or not; and, where one's notifications run an inline grid, those
// grids are of one kind too. Layers of a model so share their code.
//
// Products and parts of products share code where they differ in sizes, in what is done with their sums, and
// in their events alone.
//
// O(grids log grids).
Kinds find_kinds(const Schedule& schedule);

// The inline grid that a grid's notifications run; an invalid id where there is none.
GridId inline_grid_of(const Schedule& schedule, GridId grid);

}  // namespace mkc
