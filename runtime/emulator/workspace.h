// The workspace of steps on the emulator: a tensor holds NaN and wild integers until its tasks have written
// it.
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

  // Spoils all of it. Nothing of the step before may run any more.
  void begin_step(void* memory, uint64_t bytes);
  // Spoils what the grid's tasks write, before the first task of all that do: then nobody reads any more what
  // lay there before. From any thread.
  void begin_task(uint32_t grid);
  // By grid: the word that its tasks of this step were looked up by; 0: none has begun.
  std::span<const uint32_t> looked_up() const { return looked_up_; }

 private:
  std::vector<WorkspaceTensor> tensors_;
  std::vector<std::vector<uint32_t>> written_;  // by grid
  std::vector<uint32_t> tables_;                // by grid, where it looks up
  char* memory_ = nullptr;
  uint32_t step_ = 0;
  std::vector<std::atomic<uint32_t>> grid_begun_;  // the last step in which one of its tasks has begun
  std::mutex mutex_;                               // guards what follows
  std::vector<uint32_t> tensor_begun_;
  std::vector<uint32_t> looked_up_;
};

}  // namespace mkrt::emulator
