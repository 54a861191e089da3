// A step gives each symbol of a program a value, and each grid its number of tasks.
#pragma once

#include <span>
#include <vector>

#include "ir/step_symbols.h"
#include "ir/tasks.h"

namespace mkc {

// `rows` are the rows of one request in a step. `kv_len` counts the positions in the request's cache,
// including these rows.
struct StepRequest {
  int64_t rows = 1, kv_len = 1;
  bool operator==(const StepRequest&) const = default;
};

std::vector<Bounds> symbol_bounds(const Symbols& symbols);  // by SymbolId
// Returns the symbols' upper bounds, by SymbolId. Shapes are sized for them; shapes never depend on lists.
std::vector<int64_t> upper_bounds(const Symbols& symbols);

// Attention sums a row over KV tiles of its context, sums kKvChunkTiles tiles to a KV chunk, and sums the
// chunks. The order of sums does not depend on how tasks are formed.
//
// One task computes one partial, which has a partial slot in memory for each row. A partial covers one KV
// tile or one KV chunk, and all partials of a step cover the same.
constexpr int64_t kKvTilePositions = 256;
constexpr int64_t kKvChunkTiles = 8;
constexpr int64_t kKvChunkPositions = kKvChunkTiles * kKvTilePositions;

// Every row has partial slots for this many KV tiles.
constexpr int64_t kPartialsOfRow = 16;
// Returns the number of partial slots. Every token of the largest step has the same number of them. They
// suffice for all KV chunks of any step, and for all KV tiles where rows have up to kPartialsOfRow tiles.
// Requires the symbols of requests.
int64_t partial_slots(const Symbols& symbols);
constexpr int64_t kBusyKvChunks = 16;  // KV chunks per key/value head that keep all workers busy
// Returns the positions that one partial covers in a step with these requests: a KV chunk or a KV tile. KV
// chunks are for steps that have enough of them to keep all workers busy. KV chunks are also for steps whose
// KV tiles would exceed the partial slots. Requires the cut symbols.
int64_t partial_positions(const Symbols& symbols, std::span<const StepRequest> requests);

// Returns the values of a step with these requests. Symbols are found by the names that the frontend gives. T
// is the number of all rows and B the number of requests. Each request has q_len rows and kv_len positions.
//
// A symbol kv_len that is no list takes the first request's value. All other symbols take their lower bounds.
//
// `active_expert_rows` gives the rows of each active expert, where experts are routed. An empty
// `active_expert_rows` stands for spread_rows() over as many active experts as the step can have.
std::vector<int64_t> step_values(const Symbols& symbols, std::span<const StepRequest> requests,
                                 std::span<const int64_t> active_expert_rows = {});

// Each token of a step chooses `choices` of `experts` experts.
struct Routing {
  int64_t choices = 0, experts = 0;
};
// Returns the routing by the bounds of the routed symbol active_experts; it has no choices where there is
// none.
Routing routing_of(const Symbols& symbols);
// Returns the rows of each of `active_experts` active experts: the choices of all tokens, spread evenly.
// Requires choices <= active_experts <= min(experts, choices * tokens).
std::vector<int64_t> spread_rows(const Routing& routing, int64_t tokens, int64_t active_experts);

// Returns all symbols and list elements at their lower bounds. The values describe a decode step at the start
// of a context. Plans are tuned for such a step.
std::vector<int64_t> lowest_values(const Symbols& symbols);

// Returns text such as "T = 2, kv_len = [7, 300]". The text leaves out sums and cut symbols.
std::string values_text(const Symbols& symbols, std::span<const int64_t> values);

// coord_bounds returns the bounds of a grid's coordinates under bounds of the symbols. never_empty tells
// whether the grid has a task for all values within these bounds.
std::vector<Bounds> coord_bounds(const TaskGrid& grid, const std::vector<Bounds>& symbols);
bool never_empty(const TaskGrid& grid, const std::vector<Bounds>& symbols);

// TaskSpace has the tasks of a grid at given values. Tasks are numbered from 0 with the last coordinate
// fastest.
class TaskSpace {
 public:
  TaskSpace(const TaskGrid& grid, std::span<const int64_t> values);
  int64_t count() const { return count_; }
  void coords_of(int64_t task, std::vector<int64_t>& coords) const;  // requires task < count()

 private:
  std::vector<int64_t> extents_;  // extents of the coordinates that are not ragged
  // The last extent may depend on the coordinate before it. begin_ then holds the first task of each value of
  // that coordinate, and last their total. begin_ is empty otherwise.
  std::vector<int64_t> begin_;
  int64_t count_ = 1;
};

}  // namespace mkc
