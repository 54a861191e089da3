// The emulator spoils the workspace of steps. A tensor holds NaN and wild integers until its tasks have
// written it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/emulator/emulator.h"

namespace mkrt::emulator {

class Workspace {
 public:
  explicit Workspace(const StepKernels& kernels);

  // Spoils the whole workspace. No task of the step before may still run.
  void begin_step(void* memory, uint64_t bytes);
  // Spoils the tensors that the grid's tasks write, before the first task of any grid that writes them. No
  // task then reads their earlier contents. Any thread may call.
  void begin_task(uint32_t grid);
  // Returns by grid the word with which this step's tasks were looked up; 0 means that none has begun.
  std::span<const uint32_t> looked_up() const { return looked_up_; }

 private:
  std::vector<WorkspaceTensor> tensors_;
  std::vector<std::vector<uint32_t>> written_;  // by grid
  std::vector<uint32_t> tables_;                // by grid, where its tasks are looked up
  char* memory_ = nullptr;
  uint32_t step_ = 0;
  std::vector<std::atomic<uint32_t>> grid_begun_;  // newest step in which a task of the grid has begun
  std::mutex mutex_;                               // guards the members below
  std::vector<uint32_t> tensor_begun_;
  std::vector<uint32_t> looked_up_;
};

}  // namespace mkrt::emulator
