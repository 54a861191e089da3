// A step's counters must have certain values at its end by the schedule, and are compared with them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/abi/abi.h"

namespace mkrt {

// StepGiven is what the host, or the step before, sets for a step.
struct StepGiven {
  std::array<int32_t, kMaxSymbols> symbol{};
  std::array<int32_t, kMaxRequests> rows{},
      lengths{};  // per request: rows; positions in the cache with these rows
};
// Returns the sizes that a MkStep sets.
StepGiven given_of(const MkStep& step);

// StepCounts is the result of a correct step: a bank of counters, and the number of tasks. Each task runs
// once. Counters of a log hold their numbers in any order.
struct StepCounts {
  struct Log {
    uint32_t first = 0, entries = 0;
  };
  std::vector<uint32_t> counters;
  std::vector<Log> logs;
  std::vector<uint32_t> tasks;  // tasks of each grid
};

// CountStep returns the counts of a step. `looked_up` has, by grid, the word with which its tasks were looked
// up. The word is 0 if no task has begun.
using CountStep = std::function<StepCounts(const StepGiven& given, std::span<const uint32_t> looked_up)>;

// WrongCount is the first counter with another value than expected.
struct WrongCount {
  uint32_t counter = 0, found = 0, expected = 0;
};
// Returns the first wrong counter of a bank, or nothing.
std::optional<WrongCount> find_wrong_count(const StepCounts& expected, std::span<const uint32_t> bank);

// TaskRuns counts how often each task of a step ran.
class TaskRuns {
 public:
  void clear() { runs_.clear(); }
  void add(uint32_t grid, uint32_t first, uint32_t count);  // any thread may call
  // Wrong is the first task that did not run exactly once, or that should not exist.
  struct Wrong {
    uint32_t grid = 0, task = 0, runs = 0, expected = 0;
  };
  std::optional<Wrong> find_wrong(std::span<const uint32_t> tasks) const;

 private:
  std::mutex mutex_;
  std::vector<std::vector<uint32_t>> runs_;  // by grid and task
};

}  // namespace mkrt
