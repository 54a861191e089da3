// What the counters of a step must hold at its end, by the schedule, and the check that they do.
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

// What the host, or the step before, says of a step.
struct StepGiven {
  std::array<int32_t, kMaxSymbols> symbol{};
  std::array<int32_t, kMaxRequests> rows{},
      lengths{};  // of each request; positions in the cache with these rows
};
StepGiven given_of(const MkStep& step);

// What a step leaves: a bank of counters, of which those of a log hold their numbers in any order; and tasks,
// each run once.
struct StepCounts {
  struct Log {
    uint32_t first = 0, entries = 0;
  };
  std::vector<uint32_t> counters;
  std::vector<Log> logs;
  std::vector<uint32_t> tasks;  // of each grid
};

// Makes the counts of a step. `looked_up`, by grid: the word that its tasks were looked up by, 0 where none
// has begun.
using CountStep = std::function<StepCounts(const StepGiven& given, std::span<const uint32_t> looked_up)>;

// The first counter that does not hold what it must.
struct WrongCount {
  uint32_t counter = 0, found = 0, expected = 0;
};
std::optional<WrongCount> find_wrong_count(const StepCounts& expected, std::span<const uint32_t> bank);

// How often each task of a step was run.
class TaskRuns {
 public:
  void clear() { runs_.clear(); }
  void add(uint32_t grid, uint32_t first, uint32_t count);  // from any thread
  // The first task that was not run once, or that there should not be.
  struct Wrong {
    uint32_t grid = 0, task = 0, runs = 0, expected = 0;
  };
  std::optional<Wrong> find_wrong(std::span<const uint32_t> tasks) const;

 private:
  std::mutex mutex_;
  std::vector<std::vector<uint32_t>> runs_;  // by grid and task
};

}  // namespace mkrt
