#include "ir/footprint.h"

#include <fmt/format.h>

#include "ir/bodies/body.h"

namespace mkc {

std::optional<Region> footprint(const TaskProgram& program, const TaskGrid& grid,
                                const BodyOperand& operand) {
  const bool is_cache = operand.role == "k_cache" || operand.role == "v_cache";
  const bool streams = multiplies(grid) && operand.role == "weight";
  if (!is_cache && operand.stream != streams) return std::nullopt;
  return body_of(grid.body).footprint({program, grid, operand, program.tensors[operand.tensor].shape});
}

std::vector<std::optional<Expr>> coordinate_extents(const TaskProgram& program, const TaskGrid& grid) {
  std::vector<std::optional<Expr>> extents(grid.coords.size());
  if (const auto set_extents = body_of(grid.body).set_extents) set_extents(program, grid, extents);
  return extents;
}

void declare_regions(const TaskProgram& program, TaskGrid& grid) {
  for (auto [accesses, written] : {std::pair(&grid.reads, false), {&grid.writes, true}})
    for (Access& access : *accesses) {
      std::optional<Region> region =
          footprint(program, grid, {access.role, access.tensor, written, access.stream});
      MKC_ASSERT(region, fmt::format("%{} has no footprint of {}", grid.name, access.role));
      access.region = *std::move(region);
    }
}

}  // namespace mkc
