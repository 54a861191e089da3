// The tasks of all grids at one step.
#pragma once

#include <vector>

#include "ir/schedule.h"
#include "tests/attack/schedules/footprint.h"
#include "tests/attack/schedules/step.h"

namespace mkc::attack {

// The tasks of a grid, numbered with the last coordinate fastest, as docs/ir.md has it.
struct GridTasks {
  uint32_t base = 0;  // of the grid's first task among all tasks
  int64_t count = 0;
  std::vector<int64_t> extents;  // of the coordinates that are not ragged
  std::vector<int64_t> row_end;  // of a ragged grid: tasks up to each value of the coordinate before the last

  void coords_of(int64_t task, std::vector<int64_t>& coords) const;
  // Tasks of each value of the first `coords` coordinates.
  int64_t within(size_t coords) const;
};

constexpr int64_t kMaxTasks = 1 << 21;

// Throws a Finding for extents below 0 or steps of more than kMaxTasks tasks.
std::vector<GridTasks> tasks_of(const TaskProgram& program, const Step& step);

// Whether the regions that the grid declares cover what a task touches. Throws a Finding where they do not.
class DeclaredRegions {
 public:
  DeclaredRegions(const Schedule& s, const Step& step, GridId grid) : s_(s), step_(step), grid_(grid) {}
  void check(std::span<const int64_t> coords, const std::vector<Touch>& touches);

 private:
  void evaluate(std::span<const int64_t> coords);
  const Schedule& s_;
  const Step& step_;
  GridId grid_;
  std::vector<Box> reads_, writes_;
};

}  // namespace mkc::attack
