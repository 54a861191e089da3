// Small models with random weights are compiled for the emulator and run by sessions.
#pragma once

#include <string>
#include <vector>

#include "codegen/host_kernel.h"
#include "runtime/session/session.h"
#include "tests/reference/model.h"
#include "tests/unit/temp_dir.h"

namespace mkc::test {

// Returns the shape of a model with one layer of bf16 weights.
inline reference::Shape one_layer() {
  reference::Shape shape;
  shape.type = reference::Type::kBf16;
  shape.layers = 1;
  shape.vocab = 160;
  shape.context = 64;
  return shape;
}

// A tiny model is a random checkpoint and the options that it is compiled with.
struct TinyModel {
  reference::Shape shape = one_layer();
  int64_t max_tokens = 48;
  int64_t max_requests = 1;  // 1: events have no spare cells
  uint32_t workers = 3;
  Scheduler scheduler = Scheduler::kStatic;
  bool batch_invariant = false;
  double task_ns = 0;  // the machine's time of a task; longer tasks give events more cells; 0: as it is
};

// `Compiled` is a checkpoint on disk and what the passes made of it. Its constructor fails the test where
// something is refused.
struct Compiled {
  explicit Compiled(const TinyModel& model);

  mkrt::test::TempDir directory;
  Schedule schedule;
  mkrt::Artefact artefact;
  mkrt::Checkpoint checkpoint;
};

// Compiles the kernel for the emulator, or finds it in test_cache().
HostKernel kernel_of(const Compiled& compiled, HostOptions options);

struct RunOptions {
  mkrt::EmulatorDeviceOptions device;
  uint32_t requests = 1;
  std::vector<uint32_t> steps;  // tokens of each request in each launch
  uint32_t samples = 1;         // tokens sampled in each launch; more than one: there are no logits
  uint32_t first_position = 0;  // position of the first step, over a cache of zeros
  uint64_t timeout_ns = 10'000'000'000;
};

struct Outcome {
  std::string error;  // error of the step that failed; empty: none
  std::vector<float> logits;
  std::vector<int32_t> next;  // tokens sampled, launch by launch
  bool operator==(const Outcome&) const = default;
};

// Runs a session of the kernel over random tokens of a fixed seed.
Outcome run(const Compiled& compiled, const HostKernel& kernel, const RunOptions& options);

}  // namespace mkc::test
