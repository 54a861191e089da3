// What one task costs on a machine: the bytes it streams and the time it holds its worker.
#pragma once

#include <span>

#include "ir/values.h"
#include "scheduler/machine.h"

namespace mkc {

struct TaskCost {
  uint64_t stream_bytes = 0;  // brought in by the loader, padding of packed tiles included
  uint64_t fetch_bytes = 0;   // read by the task itself: activations, cache, norms
  double ns = 0;              // while every worker streams at its share of the ceiling
};

// Cost of the grid's first task; the tasks of a grid differ by at most a ragged end. `symbols` by SymbolId.
TaskCost task_cost(const TaskProgram& program, GridId grid, const Machine& machine,
                   std::span<const int64_t> symbols);

// Number of tasks of a grid under the given symbol values.
int64_t task_count(const TaskGrid& grid, std::span<const int64_t> symbols);

// The symbols' lower bounds: a decode step at the start of a context, for which plans are tuned.
std::vector<int64_t> decode_symbols(const TaskProgram& program);

// How many experts tokens choose, where each chooses evenly at random among all: as many as are expected.
int64_t expected_slots(const Routing& routing, int64_t tokens);

// Bytes of keys and values that a request has for each position, over all layers.
uint64_t position_bytes(const TaskProgram& program);

// Packed bytes of `rows` rows, at most the tensor's, of a matrix, or of one of a stack.
uint64_t packed_bytes(const Tensor& weight, uint64_t rows);
// Of all rows and matrices.
uint64_t packed_stack_bytes(const Tensor& weight);

}  // namespace mkc
