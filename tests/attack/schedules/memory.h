// Memory knows who wrote and read each byte of the workspace and the caches last, during one step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/schedule.h"
#include "tests/attack/schedules/footprint.h"
#include "tests/attack/schedules/step.h"

namespace mkc::attack {

constexpr uint32_t kNone = UINT32_MAX;

// A moment is a thread's number, and how often the thread's clock has ticked.
struct Moment {
  uint32_t thread = kNone, clock = 0;
};

// A use is what a task does to memory: it reads or writes numbered runs of bytes of one tensor.
struct Use {
  uint32_t runs = kNone;
  uint32_t tensor = 0;
  bool writes = false;
  Toucher by = Toucher::kTask;
};

// Memory is cut where any use of the step begins or ends. All bytes between two cuts have one history.
class Memory {
 public:
  Memory(const Schedule& s, const Step& step);

  // Returns the uses that touches make of workspace and caches. Calls come before the step runs. Throws a
  // Finding where a touch leaves its tensor's slot.
  std::vector<Use> uses_of(const std::vector<Touch>& touches, uint32_t grid);
  // Returns whether several tasks of a grid have the use.
  bool is_shared(const Use& use) const { return users_[use.runs] > 1; }
  void cut();    // cuts memory; no more uses come
  void begin();  // begins a run of the step: nothing has been written

  // `clocks` says how far the thread has seen each thread's clock. `task` is the task's number.
  void read(const Use& use, Moment now, std::span<const uint32_t> clocks, uint32_t task, uint32_t grid);
  void write(const Use& use, Moment now, std::span<const uint32_t> clocks, uint32_t task, uint32_t grid);
  void end();  // checks that outputs and caches have been written

 private:
  struct Run {
    uint64_t begin, end;  // numbers of units, or of cuts once cut() has run
  };
  struct Cut {
    Moment writer;
    uint32_t task = kNone, grid = kNone, tensor = kNone;
    size_t readers = kNone;  // index of the Readers of all threads, once anyone has read
  };
  // A reader is a thread's clock at its last read since the last write, and the task that read.
  struct Reader {
    uint32_t clock = 0, task = kNone;
  };

  uint64_t base_of(TensorId tensor) const;
  const std::vector<int64_t>& dims_of(TensorId tensor);
  uint32_t runs_of(const Touch& touch);
  void require_slot(const Touch& touch, uint64_t end) const;
  void note_owned();
  bool is_history(const Touch& touch) const;
  [[noreturn]] void fail(const char* kind, const char* what, const Use& use, uint32_t task, const Cut& cut,
                         uint32_t other) const;

  const Schedule& s_;
  const Step& step_;
  std::vector<uint64_t> cache_base_;        // offset behind the workspace, by TensorId
  std::vector<std::vector<int64_t>> dims_;  // dims by TensorId, once needed
  std::vector<Run> runs_;
  std::vector<std::pair<uint32_t, uint32_t>> lists_;  // lists of runs: first and count
  std::vector<uint32_t> users_;                       // number of uses, by list
  struct Last {
    const Access* access = nullptr;
    Box box;
    uint32_t runs = kNone;
  };
  std::vector<std::vector<Last>> last_;  // last touch, by grid and the touch's number in its task
  std::vector<Run> outputs_;             // what must be written
  std::vector<uint32_t> output_tensor_;
  std::vector<Cut> cuts_;
  std::vector<Reader> readers_;
  uint64_t end_ = 0;
  size_t cut_count_ = 0;
};

}  // namespace mkc::attack
