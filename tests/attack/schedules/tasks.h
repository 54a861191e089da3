// Each grid has its tasks at one step.
#pragma once

#include <vector>

#include "ir/schedule.h"
#include "tests/attack/schedules/footprint.h"
#include "tests/attack/schedules/step.h"

namespace mkc::attack {

// Tasks of a grid are numbered with the last coordinate fastest (docs/ir.md).
struct GridTasks {
  uint32_t base = 0;  // number of the grid's first task among all tasks
  int64_t count = 0;
  std::vector<int64_t> extents;  // extents of the coordinates that are not ragged
  std::vector<int64_t> row_end;  // ragged: tasks up to each value of the coordinate before the last

  void coords_of(int64_t task, std::vector<int64_t>& coords) const;
  // Returns the tasks of each value of the first `coords` coordinates.
  int64_t within(size_t coords) const;
};

constexpr int64_t kMaxTasks = 1 << 21;

// Throws a Finding for extents below 0 or steps of more than kMaxTasks tasks.
std::vector<GridTasks> tasks_of(const TaskProgram& program, const Step& step);

// Checks that the regions that a grid declares cover what a task touches. Throws a Finding where they do not.
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
