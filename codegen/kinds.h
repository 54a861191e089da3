// Grids of one kind share one piece of code. They differ only in the numbers of their records (MkGrid in
// runtime/abi/abi.h).
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/mode.h"
#include "ir/schedule.h"

namespace mkc {

struct Kinds {
  std::vector<uint32_t> of_grid;  // by GridId
  std::vector<GridId> first;      // by kind: its first grid, which stands for it
  // Each group holds kinds that share one piece of code in the megakernel, named by their first grids. Each
  // kind is in exactly one group. The shared code chooses at run time between parts that differ by kind.
  std::vector<std::vector<GridId>> shared_code_groups;
};

// Returns the kinds of a schedule's grids, in O(grids log grids). Layers of a model share their kinds.
//
// Two grids have one kind if they agree in body, attributes, coordinates, placement, operands, waits and
// notifications. Operands agree if they have equal roles, types and shapes, and lie in equal kinds of memory.
// Waits and notifications agree if they have equal maps, and their events equal dims, counts and logging.
// Inline grids that notifications run must be of one kind, too.
//
// Kinds of product and split_k_partial grids share code if they differ only in sizes, epilogues and events.
// So do both kinds of an expert's products.
//
// Kernels mode has no events, and parts that differ by kind are not chosen at run time. There, grids of
// products are of one kind if they also make equal rows, are split alike and run no inline grid.
Kinds find_kinds(const Schedule& schedule, Mode mode = Mode::kMegakernel);

// Returns the inline grid that a grid's notifications run, or an invalid id where there is none.
GridId inline_grid_of(const Schedule& schedule, GridId grid);

}  // namespace mkc
