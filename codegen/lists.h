// A worker keeps the lists of a step in shared memory. StepLists places the lists of the step, the row
// blocks, and the first task of each row of ragged grids.
#pragma once

#include <optional>

#include "ir/tasks.h"
#include "ir/values.h"

namespace mkc {

// The task counts of a ragged grid: the extent of its last coordinate depends on the coordinate before it,
// the row.
struct RaggedRows {
  Expr rows;    // extent of the row coordinate
  Expr extent;  // extent of the last coordinate; coordinate 0 stands for the row
  bool operator==(const RaggedRows&) const = default;
};

struct StepLists {
  std::vector<SymbolId> given;      // lists that the host writes, in the manifest's order
  std::optional<RowBlocks> blocks;  // row blocks that are cut from the given lists
  // before_last counts each request's blocks before its last one. Requests are the rows.
  std::optional<RaggedRows> before_last;
  uint32_t partial_positions = 0;  // word that holds the positions of a partial, if these are cut
  std::vector<RaggedRows> ragged;  // ragged grids, each row count once

  // The places give the first word of each list.
  std::vector<std::pair<SymbolId, uint32_t>> symbol_places;
  std::vector<std::pair<RaggedRows, uint32_t>> ragged_places;
  uint32_t words = 0;
  uint32_t at(SymbolId list) const;           // requires one of `given` or `blocks`
  uint32_t at(const RaggedRows& rows) const;  // requires before_last or one of `ragged`
};

// Returns the task counts of a ragged grid, or nothing for other grids.
std::optional<RaggedRows> ragged_rows(const TaskGrid& grid);

// Returns the lists of a program and their places. Requires a valid program that check_lists() accepts.
StepLists find_lists(const TaskProgram& program);

// Checks that the lists of the largest step fit in a worker's shared memory. Error: they do not.
Status check_lists(const TaskProgram& program);

}  // namespace mkc
