// The lists that a worker keeps in shared memory: those of the step, its row blocks, and where the rows of
// ragged grids begin.
#pragma once

#include <optional>

#include "ir/tasks.h"
#include "ir/values.h"

namespace mkc {

// Tasks of grids whose last extent depends on the coordinate before it.
struct RaggedRows {
  Expr rows;    // extent of that coordinate
  Expr extent;  // of the last one, over coordinate 0: the row
  bool operator==(const RaggedRows&) const = default;
};

struct StepLists {
  std::vector<SymbolId> given;  // in the manifest's order
  // Cut from these, and of each request the blocks before its last, likewise counted as tasks.
  std::optional<RowBlocks> blocks;
  std::optional<RaggedRows> before_last;
  uint32_t partial_positions = 0;  // where the positions of a partial are, if these are cut, too
  std::vector<RaggedRows> ragged;  // of grids, each once

  // Where each list begins, in words from the first one.
  std::vector<std::pair<SymbolId, uint32_t>> symbol_places;
  std::vector<std::pair<RaggedRows, uint32_t>> ragged_places;
  uint32_t words = 0;
  uint32_t at(SymbolId list) const;           // requires one of `given` or `blocks`
  uint32_t at(const RaggedRows& rows) const;  // requires before_last or one of `ragged`
};

// Nothing for grids that are not ragged.
std::optional<RaggedRows> ragged_rows(const TaskGrid& grid);

// Requires a valid program that check_lists passes.
StepLists find_lists(const TaskProgram& program);

// Error: a worker has no room for the lists of the largest steps.
Status check_lists(const TaskProgram& program);

}  // namespace mkc
