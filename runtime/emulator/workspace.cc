#include "runtime/emulator/workspace.h"

#include <algorithm>
#include <cstring>

#include "runtime/emulator/spoil.h"

namespace mkrt::emulator {

Workspace::Workspace(const StepKernels& kernels)
    : tensors_(kernels.tensors),
      written_(kernels.written),
      tables_(kernels.looked_up),
      grid_begun_(written_.size()),
      tensor_begun_(tensors_.size()),
      looked_up_(written_.size()) {}

void Workspace::begin_step(void* memory, uint64_t bytes) {
  memory_ = static_cast<char*>(memory);
  ++step_;
  std::fill(looked_up_.begin(), looked_up_.end(), 0);
  spoil(memory, bytes);
}

void Workspace::begin_task(uint32_t grid) {
  if (grid >= written_.size() || grid_begun_[grid].load(std::memory_order_acquire) == step_) return;
  const std::lock_guard lock(mutex_);
  if (grid < tables_.size() && tables_[grid] != kNotLookedUp && looked_up_[grid] == 0)
    std::memcpy(&looked_up_[grid], memory_ + tensors_[tables_[grid]].offset, sizeof(uint32_t));
  for (const uint32_t t : written_[grid]) {
    if (tensor_begun_[t] == step_) continue;
    tensor_begun_[t] = step_;
    spoil(memory_ + tensors_[t].offset, tensors_[t].bytes);
  }
  grid_begun_[grid].store(step_, std::memory_order_release);
}

}  // namespace mkrt::emulator
