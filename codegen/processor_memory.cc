#include "codegen/processor_memory.h"

#include <algorithm>

#include "codegen/operands.h"
#include "codegen/processor/product.h"
#include "ir/step_symbols.h"
#include "ir/tasks.h"
#include "runtime/abi/packing.h"

namespace mkc {
namespace {

constexpr uint64_t kRowGap = 2 * mk::kRowGap;  // columns; a word holds at most two

}  // namespace

uint32_t processor_bytes(const Schedule& schedule) {
  const TaskProgram& program = schedule.program;
  uint64_t padded_cols = 0;
  for (const TaskGrid& grid : program.grids) {
    if (!multiplies(grid)) continue;
    const Tensor& weight = operand_tensor(program, grid, "weight");
    const auto cols = static_cast<uint64_t>(weight.shape.back().constant());
    padded_cols = std::max(padded_cols, mkrt::packed_shape(1, cols, weight_type(weight)).padded_cols);
  }
  const auto tokens = static_cast<uint64_t>(program.symbols[step_symbols(program.symbols).tokens].bounds.hi);
  return static_cast<uint32_t>(mk::kRowsOffset +
                               (tokens + mk::kSpareRows) * (padded_cols + kRowGap) * sizeof(float));
}

}  // namespace mkc
