#include "runtime/emulator/workspace.h"

#include "runtime/emulator/spoil.h"

namespace mkrt::emulator {

Workspace::Workspace(const StepKernels& kernels)
    : tensors_(kernels.tensors),
      written_(kernels.written),
      grid_begun_(written_.size()),
      tensor_begun_(tensors_.size()) {}

void Workspace::begin_step(void* memory, uint64_t bytes) {
  memory_ = static_cast<char*>(memory);
  ++step_;
  spoil(memory, bytes);
}

void Workspace::begin_task(uint32_t grid) {
  if (grid >= written_.size() || grid_begun_[grid].load(std::memory_order_acquire) == step_) return;
  const std::lock_guard lock(mutex_);
  for (const uint32_t t : written_[grid]) {
    if (tensor_begun_[t] == step_) continue;
    tensor_begun_[t] = step_;
    spoil(memory_ + tensors_[t].offset, tensors_[t].bytes);
  }
  grid_begun_[grid].store(step_, std::memory_order_release);
}

}  // namespace mkrt::emulator
