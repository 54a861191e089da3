// Workers of one launch share this state, by which OS threads detect that nothing can run.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/emulator/disturber.h"
#include "runtime/emulator/emulator.h"
#include "runtime/emulator/race.h"
#include "runtime/emulator/worker.h"

namespace mkrt::emulator {

struct Launch {
  KernelCall kernel;
  const MkSession* session;
  const MkStep* step;
  EmulatorOptions options;
  EmulatorNames names;
  std::vector<std::unique_ptr<Worker>> workers;
  std::unique_ptr<Race> race;            // null unless in race mode
  std::unique_ptr<Disturber> disturber;  // null without a disturbance

  std::atomic<uint64_t> time_offset_ns{1'000'000};
  std::atomic<uint64_t> notifications{0};
  std::atomic<uint64_t> stamps{0};  // calls of mk_stamp_time

  // Counts changes that may let a fiber of another worker continue: changed counters and jumps of time.
  std::atomic<uint64_t> changes{0};
  std::atomic<uint32_t> waiting{0};  // OS threads that wait for a change
  std::atomic<bool> over{false};

  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  uint32_t active = 0;  // OS threads with live workers
  uint32_t idle = 0;    // OS threads of these that found nothing to run at change number idle_at
  uint64_t idle_at = 0;
  uint64_t last_progress = 0;
  uint32_t fruitless = 0;  // consecutive stalls without progress between them
  uint64_t time_jumps = 0;
  std::string failure;  // empty: none
};

// Tells all OS threads that a counter changed.
void note_change(Launch& launch);
// Ends the launch without a failure, because its further course does not matter.
void end_launch(Launch& launch);
// Ends the launch with a failure. The first failure is kept.
void set_failure(Launch& launch, std::string message);
// Runs workers first, first + stride, … until the launch ends.
void run_workers(Launch& launch, uint32_t first, uint32_t stride);

}  // namespace mkrt::emulator
