// A launch's memory on the device and, laid out alike, on the host: what the host brings, in one piece,
// behind it a fault and what was sampled, which come back in one piece if there is room for them beside the
// session's fault.
#pragma once

#include <optional>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/session/batch.h"
#include "runtime/session/check_batch.h"

namespace mkrt {

// Symbols of MkStep::lists.
constexpr const char* kStepListNames[kStepLists] = {"q_len", "kv_len", "first_row"};

// Memory of a session on the device: its fault, and behind it room for what a launch samples. Launches share
// it: the next one begins when the copy of what the last one left is done.
struct ResultMemory {
  uint64_t fault = 0, bytes = 0;  // address, and with the room
};
uint64_t result_bytes(const BatchLimits& limits);  // for greedy samples of one step

// Not thread-safe.
class StepMemory {
 public:
  StepMemory() = default;
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;
  ~StepMemory();

  // Takes memory for greedy steps within the limits; other samples take more when they come. May be called
  // again. Device and results must outlive this. Errors: no memory.
  Status reserve(Device& device, const BatchLimits& limits, const ResultMemory& results);
  // From now on what is enqueued serves every batch within the limits whose requests sample no more than
  // `max`, as a graph needs it. May be called again, for no more. Errors: no memory; more.
  Status settle(const Samples& max);
  bool settled() const { return settled_.has_value(); }

  // Takes a batch that check_batch has passed, when the one before has ended. `step` has its symbols, timeout
  // and serial; the rest is filled in. Errors: no memory; samples more than it was settled for.
  Status fill(const Batch& batch, MkStep step);

  // Puts the batch on the stream: to the device, its launch, and back the session's fault and what was
  // sampled. Errors: the device's.
  Status enqueue(uint64_t stream, uint64_t session);
  // Until the stream has done that; where it was settled, until the stream has done all. Errors: the
  // device's.
  Status wait(uint64_t stream);

  // Of a batch that has ended.
  MkFault fault() const { return *at<MkFault>(at_.fault); }
  Status read(StepResult& result) const;  // error: more than was asked for

 private:
  // What samples take: words of stop ids, seen ids and tokens, entries of log-probabilities.
  struct SampleSizes {
    uint64_t stop_ids = 0, seen = 0, sampled = 0, logprobs = 0;
    void add(const SampleSizes& other, uint64_t times = 1);
    bool fits(const SampleSizes& room) const;
  };
  // Offsets of what a batch needs, and their end.
  struct Layout {
    uint64_t tokens, positions, lists, page_begin, slot, samples, stop_ids, seen, page_index;  // the host's
    uint64_t fault, sampled, logprobs, end;                                                    // the kernel's
  };
  static SampleSizes sizes_of(const Samples& samples);
  Layout lay_out(uint64_t rows, uint64_t requests, const SampleSizes& samples) const;
  bool together() const { return at_.end - at_.fault <= results_.bytes; }  // fault and samples
  uint64_t address(uint64_t offset) const {  // on the device, of what is sampled
    return together() ? results_.fault + (offset - at_.fault) : memory_ + offset;
  }
  Status grow(uint64_t bytes);
  void release();
  void bring_rows(const Batch& batch);
  void bring_samples(const Batch& batch);
  template <class T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(host_ + offset);
  }

  Device* device_ = nullptr;
  BatchLimits limits_{};
  ResultMemory results_;
  uint64_t memory_ = 0, bytes_ = 0;     // on the device
  std::byte* host_ = nullptr;           // as much
  std::optional<uint64_t> mark_;        // behind what was enqueued last
  std::optional<SampleSizes> settled_;  // of all requests
  uint32_t steps_ = 1;                  // of the launch
  Layout at_{};                         // of the batch filled in last,
  uint64_t brought_ = 0;                // what of it goes to the device,
  std::vector<SampleSizes> sizes_;      // and what each of its requests samples
};

}  // namespace mkrt
