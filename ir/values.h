// Values of a program's symbols at one step, and the tasks that its grids have then.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/tasks.h"

namespace mkc {

// The rows of one request in a step, and the positions in its cache with them.
struct StepRequest {
  int64_t rows = 1, kv_len = 1;
  bool operator==(const StepRequest&) const = default;
};

using Symbols = Table<SymbolId, Symbol>;
SymbolId find_symbol(const Symbols& symbols, std::string_view name);  // invalid where there is none

std::vector<Bounds> symbol_bounds(const Symbols& symbols);  // by SymbolId
// By SymbolId: what shapes, which know no lists, are sized for.
std::vector<int64_t> upper_bounds(const Symbols& symbols);

// The rows of a step in blocks for attention: those of a request in turn, `max_rows` to a block and in its
// last block what is left. First come all that are no request's last, in the order of their rows, then the
// last ones, a request each. Of each block its request, its rows, the first of these, and the positions in
// the request's cache up to its last row.
struct RowBlocks {
  SymbolId count, request, rows, first_row, kv_len;
  SymbolId partial_positions;  // positions of a part, see below; invalid: each piece is one
  int64_t max_rows = 0;
};
// The cut symbols of a program; nothing where it has none.
std::optional<RowBlocks> row_blocks(const Symbols& symbols);

// Attention adds a row up over pieces of its context, spans of so many pieces, and these together, whatever
// its tasks. A task goes through a part, with a slot in memory for each row: a piece, or a span, in all of a
// step alike.
constexpr int64_t kKvTilePositions = 256;
constexpr int64_t kKvChunkTiles = 8;
constexpr int64_t kKvChunkPositions = kKvChunkTiles * kKvTilePositions;

// The slots there are, the same number for each of the most tokens: enough for all spans of any step, and for
// all pieces where rows have up to kPartsOfRow. Requires symbols of requests.
constexpr int64_t kPartialsOfRow = 16;
int64_t partial_slots(const Symbols& symbols);
// Positions of a part: a span's where a step has so many that spans keep all workers busy, or where pieces
// would be more than there are slots.
constexpr int64_t kBusyKvChunks = 16;  // of each key/value head
int64_t partial_positions(const Symbols& symbols, std::span<const StepRequest> requests);

// As evaluate() takes them: by SymbolId, then the elements of the lists. `given`, by SymbolId: one value of a
// symbol, the elements of a list; of a list of sums that is not cut nothing.
std::vector<int64_t> lay_out_values(const Symbols& symbols, const std::vector<std::vector<int64_t>>& given);

// Of a step with these requests, by the names that the frontend gives: T rows in all, B requests, and for
// each request q_len rows and kv_len positions. A symbol kv_len that is no list is the first request's; all
// others are at their lower bounds. `active_expert_rows`: rows of each expert that has some, where experts
// are routed; empty: as spread_rows() has it, over as many experts as may have some.
std::vector<int64_t> step_values(const Symbols& symbols, std::span<const StepRequest> requests,
                                 std::span<const int64_t> active_expert_rows = {});

// How the tokens of a step choose experts, all alike: `choices` each, of `experts`.
struct Routing {
  int64_t choices = 0, experts = 0;
};
// By the bounds of the routed symbol active_experts; no choices where there is none.
Routing routing_of(const Symbols& symbols);
// The rows of `active_experts` experts, evenly, of tokens that choose as many each as the routing says;
// requires slots from its choices to the lesser of its experts and of all choices.
std::vector<int64_t> spread_rows(const Routing& routing, int64_t tokens, int64_t slots);

// All symbols and elements at their lower bounds: a decode step at the start of a context, for which plans
// are tuned.
std::vector<int64_t> lowest_values(const Symbols& symbols);

// "T = 2, kv_len = [7, 300]"; sums and what is cut are left out.
std::string values_text(const Symbols& symbols, std::span<const int64_t> values);

// Bounds of a grid's coordinates under bounds of the symbols, and whether it has a task for all values.
std::vector<Bounds> coord_bounds(const TaskGrid& grid, const std::vector<Bounds>& symbols);
bool never_empty(const TaskGrid& grid, const std::vector<Bounds>& symbols);

// The tasks of a grid at given values, numbered from 0 with the last coordinate fastest.
class TaskSpace {
 public:
  TaskSpace(const TaskGrid& grid, std::span<const int64_t> values);
  int64_t count() const { return count_; }
  void coords_of(int64_t task, std::vector<int64_t>& coords) const;  // requires task < count()

 private:
  std::vector<int64_t> extents_;  // of the coordinates that are not ragged
  // Where the last extent depends on the coordinate before it: the first task of each of that one's values,
  // and of all; else empty.
  std::vector<int64_t> begin_;
  int64_t count_ = 1;
};

}  // namespace mkc
