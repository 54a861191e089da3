// How a range of a task's region moves along one dim. Internal to prove.
#pragma once

#include <optional>

#include "scheduler/proof/context.h"

namespace mkc::proof {

using Interval = std::pair<int64_t, int64_t>;  // half open

struct Along {
  enum class Kind : uint8_t {
    kWhole,   // the dim, for every task
    kTable,   // an interval for each value of `coord`, or one for all tasks where there is no coordinate
    kEach,    // element coord of the dim
    kRagged,  // element coord of the dim, where the number of these depends on the coordinate before
    kSpans,   // the interval that a list of starts and one of lengths give coord
    kOther,   // any part of the dim
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  Kind kind = Kind::kOther;
  uint32_t coord = kNone;
  std::vector<Interval> intervals{};         // kTable: by value of coord, cut to the dim
  Spans spans{};                             // kSpans
  TensorId starts_table{}, lengths_table{};  // kSpans of routed lists: where the grid has them from

  bool moves() const { return coord != kNone; }
};

// Classifies [offset, offset + size) of a grid's task, cut to [0, dim). Sound for any range: what it does not
// know is kOther.
Along along(Context& c, GridId grid, const Range& range, const Expr& dim);

// Whether `along` never holds an element twice for two values of its coordinate, at equal values of the
// coordinate before where it is ragged.
bool disjoint(const Along& along);

// Whether two ranges of one dim meet only if their coordinates are equal.
bool meet_only_if_equal(const Along& a, const Along& b);

// The constant extent of a coordinate; nothing where it depends on symbols or is too large to walk.
std::optional<int64_t> constant_extent(const TaskGrid& grid, uint32_t coord);

}  // namespace mkc::proof
