// A launch's memory on the device: what the host brings, in one piece, and behind it what was drawn.
#pragma once

#include "runtime/batch.h"
#include "runtime/check_batch.h"
#include "runtime/device.h"

namespace mkrt {

// Symbols of MkStep::lists.
constexpr const char* kStepListNames[kStepLists] = {"q_len", "kv_len", "first_row"};

// Not thread-safe.
class StepMemory {
 public:
  StepMemory() = default;
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;
  ~StepMemory();

  // Takes memory for greedy steps within the limits; other draws take more when they come. May be called
  // again. The device must outlive this. Errors: no memory.
  Status reserve(Device& device, const BatchLimits& limits);

  // Brings a batch that check_batch has passed to the device. `step` has its symbols, timeout and serial; the
  // rest is filled in. Returns the address of the MkStep. Errors: no memory, the device's.
  Result<uint64_t> write(const Batch& batch, MkStep step);

  // What the batch written last has drawn. Errors: the device's.
  Status read(const Batch& batch, StepResult& result);

 private:
  // Offsets of what a batch needs, and their end.
  struct Layout {
    uint64_t tokens, positions, lists, page_begin, page_index, slot, draws, stop_ids, seen;  // the host's
    uint64_t drawn, logprobs;                                                                // the kernel's
    uint64_t end;
  };
  Layout lay_out(const Batch& batch) const;
  Status grow(uint64_t bytes);
  void fill_rows(const Batch& batch);
  void fill_draws(const Batch& batch);
  template <class T>
  T* host(uint64_t offset) {
    return reinterpret_cast<T*>(host_.data() + offset);
  }

  Device* device_ = nullptr;
  BatchLimits limits_{};
  uint64_t memory_ = 0, bytes_ = 0;  // on the device
  Layout at_{};                      // of the batch written last
  std::vector<std::byte> host_;      // what is brought
  std::vector<uint32_t> drawn_;
  std::vector<MkLogprobs> logprobs_;
};

}  // namespace mkrt
