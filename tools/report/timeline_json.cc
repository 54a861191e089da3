#include "tools/report/timeline_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "scheduler/simulate/simulate_path.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kRounding = 1, kFirstJoin = 16;  // ns

struct Bar {
  uint32_t grid = 0, first = 0, tasks = 1;
  bool waits = false;
  int64_t begin = 0, end = 0, ring = 0;
};

// Rows are the consumers and the loader of each worker, in turn.
using Rows = std::vector<std::vector<Bar>>;

Rows rows_of(const Timeline& timeline) {
  const double unit = timeline.timed ? 1e3 : 1;  // of a whole number in a microsecond
  const auto whole = [&](double us) { return std::llround(us * unit); };
  Rows rows(size_t{2} * timeline.workers);
  for (const TimelineSpan& s : timeline.spans) {
    const Bar bar{s.grid.index,      s.first,         s.tasks,         s.waits,
                  whole(s.begin_us), whole(s.end_us), whole(s.ring_us)};
    if (bar.end > bar.begin) rows[2 * s.worker + s.loader].push_back(bar);
  }
  const auto by_time = [](const Bar& bar) { return std::pair(bar.begin, bar.end); };
  for (std::vector<Bar>& row : rows) std::ranges::sort(row, {}, by_time);
  return rows;
}

// Joins neighbours of one grid, and waits between them, across gaps of up to `gap`.
std::vector<Bar> joined(const std::vector<Bar>& bars, int64_t gap) {
  std::vector<Bar> out;
  for (const Bar& bar : bars) {
    const bool same = !out.empty() && out.back().grid == bar.grid && out.back().waits == bar.waits;
    if (!same || bar.waits || bar.begin - out.back().end > gap) {
      if (!bar.waits || bar.end - bar.begin > gap) out.push_back(bar);
      continue;
    }
    Bar& last = out.back();
    const uint32_t end = std::max(last.first + last.tasks, bar.first + bar.tasks);
    last.first = std::min(last.first, bar.first);
    last.tasks = end - last.first;
    last.end = std::max(last.end, bar.end);
    last.ring += bar.ring;
  }
  return out;
}

int64_t last_end(const Rows& rows) {
  int64_t end = 0;
  for (const std::vector<Bar>& row : rows)
    if (!row.empty()) end = std::max(end, row.back().end);
  return end;
}

size_t count(const Rows& rows) {
  size_t bars = 0;
  for (const std::vector<Bar>& row : rows) bars += row.size();
  return bars;
}

ordered_json numbers_of(const std::vector<Bar>& bars) {
  ordered_json numbers = ordered_json::array();
  int64_t at = 0;
  for (const Bar& b : bars) {
    for (const int64_t n : {int64_t{2 * b.grid + b.waits}, int64_t{b.first}, int64_t{b.tasks}, b.begin - at,
                            b.end - b.begin, b.ring})
      numbers.push_back(n);
    at = b.end;
  }
  return numbers;
}

}  // namespace

ordered_json timeline_json(const Timeline& timeline, size_t max_bars) {
  const Rows all = rows_of(timeline);
  const auto joined_rows = [&](int64_t gap) {
    Rows rows = all;
    for (size_t i = 0; i < rows.size(); ++i)
      if (const bool loader = i % 2 == 1; loader || gap > 0)
        rows[i] = joined(all[i], std::max(gap, kRounding));
    return rows;
  };
  int64_t gap = 0;
  Rows rows = joined_rows(gap);
  for (const int64_t end = last_end(all); count(rows) > max_bars && gap < end; rows = joined_rows(gap))
    gap = gap == 0 ? kFirstJoin : 2 * gap;
  ordered_json out{{"name", timeline.name},
                   {"timed", timeline.timed},
                   {"workers", timeline.workers},
                   {"joined", gap},
                   {"rows", ordered_json::array()}};
  for (size_t i = 0; i < rows.size(); ++i)
    if (!rows[i].empty())
      out["rows"].push_back({{"worker", i / 2}, {"loader", i % 2 == 1}, {"bars", numbers_of(rows[i])}});
  return out;
}

ordered_json path_json(const SimulatedStep& step) {
  const std::vector<uint32_t> numbers = numbers_in_grids(step.simulation.tasks);
  ordered_json path = ordered_json::array();
  for (const PathTask& p : critical_path(step.simulation)) {
    path.push_back(step.simulation.tasks[p.task].grid.index);
    path.push_back(numbers[p.task]);
  }
  return path;
}

ordered_json awaited_json(const SimulatedStep& step) {
  const std::vector<TaskTime>& tasks = step.simulation.tasks;
  const std::vector<uint32_t> numbers = numbers_in_grids(tasks);
  ordered_json out = ordered_json::array();
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].awaited == TaskTime::kNone) continue;
    for (const uint32_t task : {i, tasks[i].awaited}) {
      out.push_back(tasks[task].grid.index);
      out.push_back(numbers[task]);
    }
  }
  return out;
}

}  // namespace mkc
