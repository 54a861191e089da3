// A range of a task's region moves along one dim in one of a few ways. This header is internal to prove.
#pragma once

#include <optional>

#include "scheduler/proof/context.h"

namespace mkc::proof {

using Interval = std::pair<int64_t, int64_t>;  // half open

struct Along {
  enum class Kind : uint8_t {
    kWhole,  // the whole dim, for every task
    // An interval for each value of `coord`, or one interval for all tasks where there is no coordinate.
    kTable,
    kEach,    // element coord of the dim
    kRagged,  // element coord of the dim, where the extent of coord depends on the coordinate before it
    kSpans,   // the interval that a list of starts and a list of lengths give coord
    kOther,   // any part of the dim
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  Kind kind = Kind::kOther;
  uint32_t coord = kNone;
  std::vector<Interval> intervals{};  // kTable: by value of coord, cut to the dim
  Spans spans{};                      // kSpans
  // The tables that the grid reads the lists and their length from (kSpans of routed lists).
  TensorId starts_table{}, lengths_table{}, count_table{};

  bool moves() const { return coord != kNone; }
};

// Classifies [offset, offset + size) of a grid's task, cut to [0, dim). The result is sound for any range;
// unknown ranges are kOther.
Along along(Context& c, GridId grid, const Range& range, const Expr& dim);

// Tells whether `along` never holds one element for two values of its coordinate. The coordinate before is
// equal for both where `along` is ragged.
bool disjoint(const Along& along);

// Tells whether two ranges of one dim overlap only if their coordinates are equal.
bool meet_only_if_equal(const Along& a, const Along& b);

// Returns the constant extent of a coordinate. Returns nothing where the extent depends on symbols or is too
// large to walk.
std::optional<int64_t> constant_extent(const TaskGrid& grid, uint32_t coord);

}  // namespace mkc::proof
