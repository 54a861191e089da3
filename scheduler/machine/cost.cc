#include "scheduler/machine/cost.h"

#include <algorithm>
#include <cmath>

#include "ir/values.h"
#include "runtime/abi/packing.h"

namespace mkc {
namespace {

uint64_t region_elements(const Region& region, std::span<const int64_t> symbols,
                         std::span<const int64_t> coords) {
  int64_t elements = 1;
  for (const Range& range : region) elements *= std::max<int64_t>(0, evaluate(range.size, symbols, coords));
  return static_cast<uint64_t>(elements);
}

// Returns the packed bytes of `rows` rows of a matrix, or of one matrix of a stack. `rows` are at most the
// tensor's.
uint64_t packed_bytes(const Tensor& weight, uint64_t rows) {
  const auto cols = static_cast<uint64_t>(evaluate(weight.shape.back(), {}));
  return mkrt::packed_shape(rows, cols, weight_type(weight)).bytes;
}

}  // namespace

TaskCost task_cost(const TaskProgram& program, GridId grid, const Machine& machine,
                   std::span<const int64_t> symbols) {
  const TaskGrid& g = program.grids[grid];
  const std::vector<int64_t> first(g.coords.size(), 0);
  TaskCost cost;
  for (const Access& read : g.reads) {
    const Tensor& tensor = program.tensors[read.tensor];
    const size_t dims = read.region.size();  // the region of a stack is a strip of one of its matrices
    if (read.stream && tensor.kind == TensorKind::kWeight && dims >= 2)
      cost.stream_bytes +=
          packed_bytes(tensor, static_cast<uint64_t>(evaluate(read.region[dims - 2].size, symbols, first))) /
          static_cast<uint64_t>(split_k(g));
    else if (read.stream)
      cost.stream_bytes +=
          region_elements(read.region, symbols, first) * static_cast<uint64_t>(dtype_bytes(tensor.dtype));
    else
      cost.fetch_bytes +=
          region_elements(read.region, symbols, first) * static_cast<uint64_t>(dtype_bytes(tensor.dtype));
  }
  // All tasks usually fetch the operands that one task fetches. The operands come from L2 unless they exceed
  // it.
  const double fetch_rate =
      cost.fetch_bytes <= machine.l2_bytes ? machine.l2_bytes_per_ns : machine.stream_bytes_per_ns;
  cost.ns = machine.task_ns +
            machine.workers * (static_cast<double>(cost.stream_bytes) / machine.stream_bytes_per_ns +
                               static_cast<double>(cost.fetch_bytes) / fetch_rate);
  return cost;
}

int64_t task_count(const TaskGrid& grid, std::span<const int64_t> symbols) {
  return TaskSpace(grid, symbols).count();
}

std::vector<int64_t> decode_symbols(const TaskProgram& program) {
  return lowest_values(program.symbols);
}

int64_t expected_active_experts(const Routing& routing, int64_t tokens) {
  const auto experts = static_cast<double>(routing.experts);
  const double missed =
      std::pow(1 - static_cast<double>(routing.choices) / experts, static_cast<double>(tokens));
  return std::max<int64_t>(routing.choices, std::llround(experts * (1 - missed)));
}

uint64_t position_bytes(const TaskProgram& program) {
  int64_t bytes = 0;
  for (const Tensor& t : program.tensors)  // [requests, heads, positions, head_dim]
    if (t.kind == TensorKind::kCache)
      bytes += t.shape[1].constant() * t.shape[3].constant() * dtype_bytes(t.dtype);
  return static_cast<uint64_t>(bytes);
}

uint64_t packed_stack_bytes(const Tensor& weight) {
  const std::vector<Expr>& shape = weight.shape;
  const uint64_t matrix = packed_bytes(weight, static_cast<uint64_t>(evaluate(shape[shape.size() - 2], {})));
  return shape.size() == 2 ? matrix : static_cast<uint64_t>(evaluate(shape[0], {})) * matrix;
}

}  // namespace mkc
