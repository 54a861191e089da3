#include <fmt/format.h>

#include <algorithm>

#include "runtime/abi/packing.h"
#include "scheduler/proof/placements.h"

namespace mkc::proof {
namespace {

// Returns the stages that a consumer warp holds at once for a task of the grid.
//
// Products of kMma8Tokens + 1 to kMma32Tokens rows acquire a tile of every strip of a block before they
// release one (codegen/device/product_mma32.h). All other tasks release a stage before they acquire the next.
uint32_t stages_held(const TaskProgram& program, const TaskGrid& grid) {
  if (!multiplies_in_blocks(grid)) return 1;
  // A product that gathers rows may multiply all rows of x.
  if (multiplied_rows(grid) && max_multiplied_rows(program, grid) <= mkrt::kMma8Tokens) return 1;
  const Access* weight = find_operand(grid, "weight");
  const auto parts = static_cast<uint32_t>(split_k(grid));
  const mkrt::WeightFormat format = weight_format(program.tensors[weight->tensor]);
  return format.matrix() ? (mkrt::kBlockStrips + parts - 1) / parts : 1;
}

}  // namespace

uint32_t min_stages(const TaskProgram& program) {
  uint32_t min = 0;
  for (const TaskGrid& grid : program.grids)
    if (streams(grid)) min = std::max(min, stages_held(program, grid));
  return min;
}

Status check_ring(const Context& c) {
  const uint32_t min = min_stages(c.p);
  if (min == 0) return {};
  const Subject ring{Part::kRing};
  if (c.s.ring.stages < min)
    return c.wrong(ring, fmt::format("the ring has {} stages, expected at least {}: so many are held at once",
                                     c.s.ring.stages, min));
  if (c.s.ring.stages > kMaxRing)
    return c.wrong(ring,
                   fmt::format("the ring has {} stages, expected at most {}", c.s.ring.stages, kMaxRing));
  if (c.s.ring.stage_bytes != mkrt::kStageBytes)
    return c.wrong(ring, fmt::format("a stage of the ring has {} bytes, expected {}, a tile",
                                     c.s.ring.stage_bytes, mkrt::kStageBytes));
  for (GridId g : c.p.grids.ids()) {
    const TaskGrid& grid = c.p.grids[g];
    for (const Access& read : grid.reads)
      if (read.stream && c.s.placements[g.index].kind == PlacementKind::kInline)
        return c.wrong(subject_of(g), fmt::format("%{} runs inline and streams %{}, but no loader knows when",
                                                  grid.name, c.p.tensors[read.tensor].name));
  }
  return {};
}

}  // namespace mkc::proof
