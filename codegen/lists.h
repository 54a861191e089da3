// The lists that a worker keeps in shared memory: those of the step, and where the rows of ragged grids
// begin.
#pragma once

#include <optional>

#include "ir/schedule.h"

namespace mkc {

// Tasks of grids whose last extent depends on the coordinate before it.
struct RaggedRows {
  Expr rows;    // extent of that coordinate
  Expr extent;  // of the last one, over coordinate 0: the row
  bool operator==(const RaggedRows&) const = default;
};

// Numbers of mk::Worker::list: the given ones first.
struct StepLists {
  std::vector<SymbolId> given;     // in the manifest's order
  std::vector<RaggedRows> ragged;  // each once

  uint32_t number(SymbolId list) const;           // requires one of `given`
  uint32_t number(const RaggedRows& rows) const;  // requires one of `ragged`
};

// Nothing for grids that are not ragged.
std::optional<RaggedRows> ragged_rows(const TaskGrid& grid);

// Requires a valid schedule. Ends with a bug report where there are more lists than a worker holds.
StepLists find_lists(const Schedule& schedule);

}  // namespace mkc
