#include "tests/attack/schedules/tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/attack/schedules/finding.h"

namespace mkc::attack {

void GridTasks::coords_of(int64_t task, std::vector<int64_t>& coords) const {
  size_t plain = extents.size();
  coords.resize(plain + (row_end.empty() ? 0 : 1));
  if (!row_end.empty()) {
    const int64_t within_rows = task % row_end.back();
    task /= row_end.back();
    const auto row = std::upper_bound(row_end.begin(), row_end.end(), within_rows);
    coords[plain] = within_rows - (row == row_end.begin() ? 0 : *std::prev(row));
    coords[--plain] = row - row_end.begin();
  }
  for (; plain > 0; --plain) {
    coords[plain - 1] = task % extents[plain - 1];
    task /= extents[plain - 1];
  }
}

int64_t GridTasks::within(size_t coords) const {
  int64_t tasks = row_end.empty() ? 1 : row_end.back();
  for (size_t i = coords; i < extents.size() - (row_end.empty() ? 0 : 1); ++i) tasks *= extents[i];
  return tasks;
}

std::vector<GridTasks> tasks_of(const TaskProgram& program, const Step& step) {
  std::vector<GridTasks> all;
  int64_t base = 0;
  for (const TaskGrid& grid : program.grids) {
    GridTasks tasks;
    tasks.base = static_cast<uint32_t>(base);
    tasks.count = 1;
    for (size_t i = 0; i < grid.coords.size(); ++i) {
      const Expr& extent = grid.coords[i].extent;
      if (!uses_coord(extent)) {
        tasks.extents.push_back(step.at(extent));
        if (tasks.extents.back() < 0) throw Finding{"outside", "an extent below 0 of %" + grid.name};
        tasks.count *= tasks.extents.back();
        if (tasks.count > kMaxTasks) throw Finding{"outside", "too many tasks of %" + grid.name};
        continue;
      }
      if (i + 1 != grid.coords.size() || i == 0)
        throw Finding{"outside", "a ragged extent that is not the last"};
      const int64_t rows = tasks.extents.back();
      std::vector<int64_t> coords(i, 0);
      int64_t end = 0;
      for (coords[i - 1] = 0; coords[i - 1] < rows; ++coords[i - 1])
        tasks.row_end.push_back(end += std::max<int64_t>(0, step.at(extent, coords)));
      if (rows == 0) tasks.row_end = {0};
      tasks.count = rows == 0 ? 0 : tasks.count / rows * end;
      if (tasks.count > kMaxTasks) throw Finding{"outside", "too many tasks of %" + grid.name};
    }
    base += tasks.count;
    if (base > kMaxTasks) throw Finding{"outside", "too many tasks"};
    all.push_back(std::move(tasks));
  }
  return all;
}

void DeclaredRegions::evaluate(std::span<const int64_t> coords) {
  const TaskGrid& grid = s_.program.grids[grid_];
  const auto boxes = [&](const std::vector<Access>& accesses, std::vector<Box>& out) {
    out.resize(accesses.size());
    for (size_t i = 0; i < accesses.size(); ++i) {
      Box& box = out[i];
      box.rank = std::min(accesses[i].region.size(), kDims);
      for (size_t d = 0; d < box.rank; ++d) {
        box.lo[d] = step_.at(accesses[i].region[d].offset, coords);
        box.hi[d] = box.lo[d] + step_.at(accesses[i].region[d].size, coords);
      }
    }
  };
  boxes(grid.reads, reads_);
  boxes(grid.writes, writes_);
}

void DeclaredRegions::check(std::span<const int64_t> coords, const std::vector<Touch>& touches) {
  evaluate(coords);
  const TaskGrid& grid = s_.program.grids[grid_];
  for (const Touch& touch : touches) {
    const std::vector<Access>& declared = touch.writes ? grid.writes : grid.reads;
    const std::vector<Box>& boxes = touch.writes ? writes_ : reads_;
    bool covered = false;
    for (size_t i = 0; i < declared.size() && !covered; ++i)
      covered = declared[i].role == touch.access->role && declared[i].tensor == touch.access->tensor &&
                declared[i].stream == (touch.by == Toucher::kStream) && boxes[i].contains(touch.box);
    if (!covered)
      throw Finding{"footprint", fmt::format("%{}[{}] {} {} of %{} beyond what it declares, at {}", grid.name,
                                             fmt::join(coords, ", "),
                                             touch.by == Toucher::kStream ? "streams"
                                             : touch.writes               ? "writes"
                                                                          : "reads",
                                             touch.access->role,
                                             s_.program.tensors[touch.access->tensor].name, to_text(step_))};
  }
}

}  // namespace mkc::attack
