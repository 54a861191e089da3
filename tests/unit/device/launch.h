// This harness runs task bodies, compiled for the host, on the emulator.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "codegen/device/bodies.h"
#include "runtime/emulator/emulator.h"
#include "runtime/emulator/fiber.h"

namespace mk {

template <class T>
AS1 T* global(T* p) {
  return (AS1 T*)reinterpret_cast<uintptr_t>(p);
}

// Puts the epilogue's arguments into the warp's shared memory and returns their address.
inline AS3 const EpilogueArgs* put_epilogue_args(Worker& w, const EpilogueArgs& epilogue, u32 depth = 0) {
  AS3 EpilogueArgs* to = mkd_epilogue_args(&w, depth);
  if (w.lane() == 0)
    std::memcpy(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(to)), &epilogue, sizeof(epilogue));
  mk_warp_sync();
  return to;
}

// Sides are the functions of a test's kernel on each side of the ring.
struct Sides {
  std::function<void(Worker&)> load;     // runs on each lane of the loader warp
  std::function<void(Worker&)> consume;  // runs on each consumer thread
};
inline const Sides* sides = nullptr;  // a kernel entry takes no context argument
constexpr uint32_t kTestStages = kBlockStrips;

inline void test_kernel(const MkSession* session, const MkStep* step) {
  Worker w;
  mkd_begin(&w, global(session), global(step), kTestStages);
  if (w.warp() == kConsumerWarps) {
    if (sides->load) {
      sides->load(w);
      mkd_loader_end(&w);
    }
    return;
  }
  if (w.warp() < kConsumerWarps) sides->consume(w);
}

// Runs one launch. The test fails if the emulator reports an error or the kernel records a fault.
inline void launch(const Sides& s, uint32_t workers = 1, uint64_t seed = 1) {
  sides = &s;
  MkFault fault{};
  std::vector<uint32_t> counters(128);
  MkSession session{};
  session.fault = reinterpret_cast<uint64_t>(&fault);
  session.counters = reinterpret_cast<uint64_t>(counters.data());
  session.event_cells = 64;
  session.workers = workers;
  MkStep step{};
  step.timeout_ns = 1'000'000'000;
  EmulatorOptions options;
  options.workers = workers;
  options.shared_bytes = kTestStages * kStageBytes + kBarrierBytes + kListBytes + kScratchBytes;
  options.seed = seed;
  static mkrt::emulator::StackPool stacks;
  options.stacks = &stacks;
  const Result<EmulatorStats> stats = emulate(test_kernel, &session, &step, options, nullptr, nullptr);
  REQUIRE_MESSAGE(stats.ok(), (stats.ok() ? "" : stats.error().message));
  CHECK(fault.state == 0);
}

// Returns the first n numbers of a sequence with a seed. Sequences are kept, as many cases begin with the
// same.
inline std::vector<float> random_floats(size_t n, uint32_t seed, float scale = 1) {
  struct Sequence {
    std::mt19937 rng;
    std::normal_distribution<float> normal;
    std::vector<float> numbers{};
  };
  static std::map<std::pair<uint32_t, float>, Sequence> sequences;
  Sequence& s =
      sequences.try_emplace({seed, scale}, std::mt19937(seed), std::normal_distribution<float>(0, scale))
          .first->second;
  while (s.numbers.size() < n) s.numbers.push_back(s.normal(s.rng));
  return {s.numbers.begin(), s.numbers.begin() + static_cast<ptrdiff_t>(n)};
}

// Converts to bf16 by definition: to nearest, ties to even.
inline uint16_t to_bf16(float v) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, v);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float from_bf16(uint16_t v) {
  return __builtin_bit_cast(float, uint32_t{v} << 16);
}

// Returns the L2 distance of a row from its reference, divided by the reference's norm.
inline double row_error(const float* got, const double* want, size_t n) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < n; ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return __builtin_sqrt(error / norm);
}

}  // namespace mk
