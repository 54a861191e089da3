// Small models with random weights, compiled for the emulator and run by sessions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/host_kernel.h"
#include "runtime/session.h"
#include "tests/unit/temp_dir.h"

namespace mkc::test {

// What config.json of a random checkpoint says.
struct TinyModel {
  std::string family = "llama";  // or qwen2, qwen3, mistral
  DType dtype = DType::bf16;
  int64_t layers = 1, hidden = 64, heads = 4, kv_heads = 2, head_dim = 16, ffn = 96, vocab = 160;
  int64_t context = 64;
  int64_t max_tokens = 48;
  int64_t window = 0;  // of mistral's attention; 0: none
  uint32_t workers = 3;
};

// A checkpoint on disk and what the passes made of it. Fails the test where something is refused.
struct Compiled {
  explicit Compiled(const TinyModel& model);

  mkrt::test::TempDir directory;
  Schedule schedule;
  mkrt::Artefact artefact;
  mkrt::Checkpoint checkpoint;
};

struct RunOptions {
  mkrt::EmulatorDeviceOptions device;
  std::vector<uint32_t> steps;  // tokens of each step
  uint32_t first_position = 0;  // of the first step, over a cache of zeros
  uint64_t timeout_ns = 10'000'000'000;
};

struct Outcome {
  std::string error;  // of the step that failed; empty: none
  std::vector<float> logits;
  std::vector<int32_t> next;  // of each step
  bool operator==(const Outcome&) const = default;
};

// A session of the kernel over tokens drawn from a fixed seed.
Outcome run(const Compiled& compiled, const HostKernel& kernel, const RunOptions& options);

}  // namespace mkc::test
