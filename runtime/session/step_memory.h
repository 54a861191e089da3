// The memory of a launch is laid out alike on the device and on the host. The host's data comes first and is
// copied in one piece. A fault and the samples follow.
//
// Fault and samples come back in one copy if there is room for the samples behind the session's fault.
#pragma once

#include <optional>
#include <vector>

#include "runtime/abi/symbols.h"
#include "runtime/device/device.h"
#include "runtime/session/batch.h"
#include "runtime/session/check_batch.h"

namespace mkrt {

// Names of the symbols in MkStep::lists.
constexpr const char* kStepListNames[kStepLists] = {kQLenSymbol, kKvLenSymbol, kFirstRowSymbol};

// ResultMemory is a session's memory on the device: its fault, and behind it room for a launch's samples.
// Launches share the memory. The next launch begins after the results of the one before are copied.
struct ResultMemory {
  uint64_t fault = 0, bytes = 0;  // address of the fault; size with the room behind it
};
// result_bytes() returns the size of that memory for greedy samples of one step.
uint64_t result_bytes(const BatchLimits& limits);

// StepMemory is not thread-safe.
class StepMemory {
 public:
  StepMemory() = default;
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;
  ~StepMemory();

  // Reserves memory for greedy steps within the limits; other samples take more memory later. May be called
  // again. Device and results must outlive the object. Errors: no memory.
  Status reserve(Device& device, const BatchLimits& limits, const ResultMemory& results);
  // Fixes the layout, so that the enqueued work serves every batch within the limits whose requests sample no
  // more than `max`. Requests of such a batch may share pages as long as the page table has no more entries
  // than the cache has pages. A graph needs this. May be called again with a `max` that fits.
  //
  // Errors: no memory; a `max` that does not fit.
  Status settle(const Samples& max);
  bool settled() const { return settled_.has_value(); }

  // Takes a batch that check_batch has passed, after the one before has ended. `step` has its symbols,
  // timeout and serial, and fill() sets the rest. Errors: no memory; more samples or entries of the page
  // table than settle() has fixed.
  Status fill(const Batch& batch, MkStep step);

  // Puts the batch on the stream: copies to the device, the launch, and copies of the session's fault and the
  // samples back. `next` is the address of the tokens that the launch before has sampled, by request. Errors:
  // the device's.
  Status enqueue(uint64_t stream, uint64_t session, uint64_t next);
  // Waits until the stream has done that work, or with a settled layout until the stream has done all work.
  // Errors: the device's.
  Status wait(uint64_t stream);

  // fault() and read() return the results of a batch that has ended. read() fails if the kernel reports more
  // samples than asked for.
  MkFault fault() const { return *at<MkFault>(at_.fault); }
  Status read(StepResult& result) const;

 private:
  // SampleSizes counts what samples take: words of stop ids, seen ids, allowed ids, the index of biases and
  // tokens; entries of biases and log-probabilities.
  struct SampleSizes {
    uint64_t stop_ids = 0, seen = 0, allowed = 0, biases = 0, bias_begin = 0, sampled = 0, logprobs = 0;
    void add(const SampleSizes& other, uint64_t times = 1);
    bool fits(const SampleSizes& room) const;
  };
  // The layout has the offsets of a batch's data, and their end.
  struct Layout {
    uint64_t tokens, positions, lists, page_begin, launch_request, samples, stop_ids, seen, allowed, biases,
        bias_begin,
        page_index;                          // host writes
    uint64_t fault, sampled, logprobs, end;  // kernel writes
  };
  SampleSizes sizes_of(const Samples& samples) const;
  Layout lay_out(uint64_t rows, uint64_t requests, uint64_t pages, const SampleSizes& samples) const;
  bool together() const { return at_.end - at_.fault <= results_.bytes; }  // fault and samples in one copy
  uint64_t address(uint64_t offset) const {  // device address of the fault or of samples
    return together() ? results_.fault + (offset - at_.fault) : memory_ + offset;
  }
  Status grow(uint64_t bytes);
  void release();
  void bring_rows(const Batch& batch);
  void find_last_samples(const Batch& batch);
  void bring_samples(const Batch& batch);
  template <class T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(host_ + offset);
  }

  Device* device_ = nullptr;
  BatchLimits limits_{};
  ResultMemory results_;
  uint64_t memory_ = 0, bytes_ = 0;     // on the device
  std::byte* host_ = nullptr;           // as many bytes on the host
  std::optional<uint64_t> mark_;        // passed when the newest enqueued work is done
  std::optional<SampleSizes> settled_;  // all requests together
  uint32_t steps_ = 1;                  // of the launch
  Layout at_{};                         // of the newest batch
  uint64_t brought_ = 0;                // bytes of the batch that are copied to the device
  std::vector<SampleSizes> sizes_;      // of each request of the newest batch
  // SampleRun is consecutive rows whose tokens are the samples of consecutive requests of the launch before.
  struct SampleRun {
    uint32_t row, request, count;
  };
  std::vector<SampleRun> runs_;  // of the newest batch
};

}  // namespace mkrt
