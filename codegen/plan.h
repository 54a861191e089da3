// The kernel reads its work from the plan. runtime/abi/abi.h has the layout.
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/kinds.h"
#include "codegen/mode.h"
#include "codegen/targets.h"
#include "runtime/abi/abi.h"

namespace mkc {

// Returns header, grid records, stream bounds and segments as one blob. Each part is aligned to 16 bytes.
// Requires a proved schedule whose grids keep within kMaxWaits and kMaxNotifies.
std::vector<std::byte> make_plan(const Schedule& schedule, const Kinds& kinds, Mode mode = Mode::kMegakernel,
                                 const Engines& engines = {});

// Returns the product record of a grid. Requires multiplies(grid).
mkrt::MkProduct product_record(const Schedule& schedule, const TaskGrid& grid);

}  // namespace mkc
