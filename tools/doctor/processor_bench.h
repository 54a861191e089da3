// Loops are timed on the threads of this processor.
#pragma once

#include <functional>
#include <memory>

#include "runtime/device/crew.h"
#include "runtime/device/device.h"
#include "tools/doctor/processor_measure.h"

namespace mkc {

// ProcessorBench owns a thread for each processor, and memory as a session has it.
class ProcessorBench {
 public:
  // Errors: no memory; fewer threads than processors.
  static Result<std::unique_ptr<ProcessorBench>> open(const mkrt::ProcessorFacts& facts);

  uint32_t threads() const { return crew_.size(); }
  char* memory() const { return reinterpret_cast<char*>(memory_); }
  uint64_t bytes() const { return bytes_; }
  // Returns a thread's own room for loops.
  char* own(uint32_t thread) const { return memory() + thread * kOwnBytes; }
  static constexpr uint64_t kOwnBytes = 6 << 18;

  // Runs work on threads [0, threads) at the same time. Returns the ns from the first begin to the last end.
  double together(uint32_t threads, const std::function<void(uint32_t thread)>& work);
  // Returns the rates per ns of some runs, for one thread, while `threads` threads repeat work(). work()
  // returns how much it did.
  Spread rate(uint32_t threads, const std::function<uint64_t(uint32_t thread)>& work);
  // Returns the ns of a signal: half of a round trip between thread 0 and another. Requires two threads.
  Spread signal();
  // Returns the ns of a load from a random place in the first `bytes`, which waits for the load before it.
  Spread latency(uint64_t bytes);

 private:
  ProcessorBench(uint32_t threads, std::unique_ptr<mkrt::Device> device)
      : crew_(threads), device_(std::move(device)) {}

  mkrt::Crew crew_;
  std::unique_ptr<mkrt::Device> device_;
  uint64_t memory_ = 0, bytes_ = 0;
};

}  // namespace mkc
