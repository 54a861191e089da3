#include "ir/tasks.h"

#include <algorithm>

#include "ir/domain.h"
#include "ir/values.h"

namespace mkc {

bool streams(const TaskGrid& grid) {
  return std::any_of(grid.reads.begin(), grid.reads.end(), [](const Access& a) { return a.stream; });
}

const Access* find_operand(const TaskGrid& grid, std::string_view role, bool written) {
  for (const Access& access : written ? grid.writes : grid.reads)
    if (access.role == role) return &access;
  return nullptr;
}

bool has_few_tasks(const TaskGrid& grid, Domain at_symbols) {
  int64_t tasks = 1;
  for (const Coord& c : grid.coords) {
    const int64_t extent = std::max<int64_t>(1, upper_bound(c.extent, at_symbols));
    if (extent > kMaxTasks / tasks) return false;
    tasks *= extent;
    add_coord(at_symbols, c.extent);
  }
  return true;
}

bool multiplies(const TaskGrid& grid) {
  return multiplies_in_blocks(grid) || grid.body == BodyKind::kExpert;
}

bool multiplies_in_blocks(const TaskGrid& grid) {
  return grid.body == BodyKind::kProduct || grid.body == BodyKind::kSplitKPartial;
}

int64_t split_k(const TaskGrid& grid) {
  return grid.body == BodyKind::kSplitKPartial ? grid.coords[0].extent.constant() : 1;
}

int64_t task_strips(const TaskGrid& grid) {
  return int_attr(grid.attrs, "strips", 1);
}

const Access* multiplied_rows(const TaskGrid& grid) {
  if (!multiplies(grid)) return nullptr;
  const Access* x = find_operand(grid, "x");
  return x ? x : find_operand(grid, "rows");
}

int64_t max_multiplied_rows(const TaskProgram& program, const TaskGrid& grid) {
  const Expr& rows = program.tensors[multiplied_rows(grid)->tensor].shape[0];
  return bounds(rows, symbol_bounds(program.symbols)).hi;
}

const Expr& rows_made(const TaskProgram& program, const TaskGrid& grid) {
  const bool split = grid.body == BodyKind::kSplitKPartial;
  const Access* made = find_operand(grid, split ? "sums" : "out", true);
  MKC_ASSERT(made, "grid " + grid.name + " makes nothing");
  return program.tensors[made->tensor].shape[split ? 2 : 0];
}

bool multiplies_e4m3(const TaskProgram& program, const TaskGrid& grid) {
  return multiplies_in_blocks(grid) &&
         weight_format(program.tensors[find_operand(grid, "weight")->tensor]).e4m3();
}

uint32_t fp8_from(const TaskProgram& program, const TaskGrid& grid) {
  const int64_t from = multiplies_e4m3(program, grid) ? int_attr(grid.attrs, "fp8_from", 0) : 0;
  return static_cast<uint32_t>(from);
}

bool reads_codes(const TaskGrid& grid) {
  return grid.body == BodyKind::kProduct && find_operand(grid, "codes");
}

uint32_t wgmma_from(const TaskProgram& program, const TaskGrid& grid) {
  if (!multiplies_in_blocks(grid)) return 0;
  const Tensor& weight = program.tensors[find_operand(grid, "weight")->tensor];
  const mkrt::WeightFormat format = weight_format(weight);
  const bool can = mkrt::by_warpgroups(format) &&
                   weight.shape[1].constant() % mkrt::wgmma_cols(format) == 0 && fp8_from(program, grid) == 0;
  return can ? static_cast<uint32_t>(int_attr(grid.attrs, "wgmma_from", 0)) : 0;
}

}  // namespace mkc
