// Warpgroups can multiply rows that are rounded to 8-bit floats (E4M3). A quantize grid rounds the rows once
// for all products that read them.
//
// The pass requires grids with regions and no events, and ensures the same. The pass runs after products are
// split, because only products that are not split go by warpgroups, and before events.
#pragma once

#include "ir/tasks.h"

namespace mkc {

// Tells whether a product can read codes in place of x. Its weights are E4M3 and its x is bf16. Warpgroups
// can multiply its largest steps. `from` is the fewest rows of such steps; 0: the product's `wgmma_from`.
bool can_read_codes(const TaskProgram& program, const TaskGrid& grid, uint32_t from);

// Adds a quantize grid for each tensor x, and norm, that products multiply as codes. The grid comes before
// the first of these products, is named after it, and writes codes and a scale for each row. All of these
// products read both, and have `from` as their `wgmma_from` unless it is 0. Smaller steps have no such task,
// and their products read x.
TaskProgram add_codes(TaskProgram program, uint32_t from);

}  // namespace mkc
