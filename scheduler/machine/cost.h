// A task costs a machine the bytes that it streams, and the time for which it holds its worker.
#pragma once

#include <span>

#include "ir/values.h"
#include "scheduler/machine/machine.h"

namespace mkc {

struct TaskCost {
  uint64_t stream_bytes = 0;  // brought in by the loader, with the padding of packed tiles
  uint64_t fetch_bytes = 0;   // read by the task itself: activations, cache, norms
  double ns = 0;              // while every worker streams at its share of the ceiling
};

// Returns the cost of the grid's first task. Tasks of a grid differ by at most a ragged end. `symbols` are by
// SymbolId.
TaskCost task_cost(const TaskProgram& program, GridId grid, const Machine& machine,
                   std::span<const int64_t> symbols);

// Returns the number of tasks of a grid under the given symbol values.
int64_t task_count(const TaskGrid& grid, std::span<const int64_t> symbols);

// Returns the symbols' lower bounds. The values describe a decode step at the start of a context, for which
// plans are tuned.
std::vector<int64_t> decode_symbols(const TaskProgram& program);

// Returns the expected number of active experts if each token chooses evenly at random among all experts.
int64_t expected_active_experts(const Routing& routing, int64_t tokens);

// Returns the bytes of keys and values of one position of a request, over all layers.
uint64_t position_bytes(const TaskProgram& program);

// Returns the packed bytes of a matrix, or of all matrices of a stack.
uint64_t packed_stack_bytes(const Tensor& weight);

}  // namespace mkc
