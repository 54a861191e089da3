#include "runtime/emulator/counts.h"

#include <algorithm>

namespace mkrt {

StepGiven given_of(const MkStep& step) {
  StepGiven given;
  std::copy_n(step.symbol, kMaxSymbols, given.symbol.begin());
  const auto* lists = reinterpret_cast<const int32_t*>(step.lists);
  std::copy_n(lists + kRowsList * kMaxRequests, kMaxRequests, given.rows.begin());
  std::copy_n(lists + kLengthsList * kMaxRequests, kMaxRequests, given.lengths.begin());
  return given;
}

std::optional<WrongCount> find_wrong_count(const StepCounts& expected, std::span<const uint32_t> bank) {
  std::vector<uint32_t> found(bank.begin(), bank.end());
  for (const StepCounts::Log& log : expected.logs) {
    const auto first = found.begin() + log.first;
    std::sort(first, first + log.entries);
  }
  for (uint32_t i = 0; i < found.size(); ++i)
    if (found[i] != expected.counters[i]) return WrongCount{i, found[i], expected.counters[i]};
  return std::nullopt;
}

void TaskRuns::add(uint32_t grid, uint32_t first, uint32_t count) {
  constexpr uint32_t kMaxTasks = 1 << 22, kMaxGrids = 1 << 16;  // larger numbers are wild
  const std::lock_guard lock(mutex_);
  if (grid >= kMaxGrids || first >= kMaxTasks || count >= kMaxTasks) return;
  if (grid >= runs_.size()) runs_.resize(grid + 1);
  if (first + count > runs_[grid].size()) runs_[grid].resize(first + count);
  for (uint32_t task = first; task < first + count; ++task) ++runs_[grid][task];
}

std::optional<TaskRuns::Wrong> TaskRuns::find_wrong(std::span<const uint32_t> tasks) const {
  for (uint32_t grid = 0; grid < tasks.size(); ++grid) {
    const std::vector<uint32_t> none, &runs = grid < runs_.size() ? runs_[grid] : none;
    for (uint32_t task = 0; task < std::max<size_t>(tasks[grid], runs.size()); ++task) {
      const uint32_t found = task < runs.size() ? runs[task] : 0, expected = task < tasks[grid] ? 1 : 0;
      if (found != expected) return Wrong{grid, task, found, expected};
    }
  }
  return std::nullopt;
}

}  // namespace mkrt
