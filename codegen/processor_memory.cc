#include "codegen/processor_memory.h"

#include <algorithm>

#include "codegen/operands.h"
#include "codegen/processor/product_rows.h"
#include "ir/step_symbols.h"
#include "ir/tasks.h"
#include "runtime/abi/packing.h"

namespace mkc {

uint32_t processor_bytes(const Schedule& schedule) {
  const TaskProgram& program = schedule.program;
  const auto tokens = static_cast<uint32_t>(program.symbols[step_symbols(program.symbols).tokens].bounds.hi);
  uint64_t bytes = 0;
  for (const TaskGrid& grid : program.grids) {
    if (!multiplies(grid)) continue;
    const Tensor& weight = operand_tensor(program, grid, "weight");
    const auto cols = static_cast<uint64_t>(weight.shape.back().constant());
    const uint64_t padded_cols = mkrt::packed_shape(1, cols, weight_type(weight)).padded_cols;
    bytes = std::max(bytes, mk::rows_bytes(tokens, static_cast<uint32_t>(padded_cols)));
  }
  return static_cast<uint32_t>(mk::kRowsOffset + bytes);
}

}  // namespace mkc
