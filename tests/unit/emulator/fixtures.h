// These fixtures launch hand-written kernels on the emulator. A kernel finds its arguments through the
// session's workspace.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "runtime/emulator/emulator.h"
#include "runtime/emulator/primitives.h"

namespace emulator_tests {

struct Run {
  mkrt::Result<mkrt::EmulatorStats> stats;
  std::vector<mkrt::RaceReport> races;

  bool ok() const { return stats.ok(); }
  std::string error() const { return stats.ok() ? std::string() : stats.error().message; }
  bool error_has(const std::string& text) const { return error().find(text) != std::string::npos; }
};

inline mkrt::EmulatorOptions options_for(uint32_t workers, uint32_t threads) {
  mkrt::EmulatorOptions options;
  options.workers = workers;
  options.threads_per_worker = threads;
  options.shared_bytes = 16384;
  return options;
}

// Runs `kernel` with `arguments` as its workspace.
template <class Arguments>
Run launch(mkrt::KernelEntry kernel, Arguments& arguments, const mkrt::EmulatorOptions& options,
           uint64_t timeout_ns = 1000000, const mkrt::EmulatorNames* names = nullptr) {
  mkrt::MkSession session{};
  session.workspace = reinterpret_cast<uint64_t>(&arguments);
  mkrt::MkStep step{};
  step.timeout_ns = timeout_ns;
  std::vector<mkrt::RaceReport> races;
  auto stats = mkrt::emulate(kernel, &session, &step, options, names, &races);
  return {std::move(stats), std::move(races)};
}

template <class Arguments>
Arguments& arguments_of(const mkrt::MkSession* session) {
  return *reinterpret_cast<Arguments*>(session->workspace);
}

// read() and write() report an access before they make it, as instrumented JIT code does.
template <class T>
T read(const T* p, uint32_t site) {
  mk_race_read(p, sizeof(T), site);
  return *p;
}
template <class T>
void write(T* p, T v, uint32_t site) {
  mk_race_write(p, sizeof(T), site);
  *p = v;
}

inline void add_release(uint32_t* counter) {
  mk_fence_release();
  mk_red_relaxed(counter, 1);
}

// Polls until the counter reaches `want`. The result is false if the step's timeout passes before.
inline bool wait_for(const uint32_t* counter, uint32_t want, const mkrt::MkStep* step, bool acquire = true) {
  const uint64_t start = mk_time_ns();
  while ((acquire ? mk_load_acquire(counter) : mk_load_relaxed(counter)) < want) {
    if (step->timeout_ns != 0 && mk_time_ns() - start > step->timeout_ns) return false;
    mk_pause(counter, want);
  }
  return true;
}

inline bool wait_phase(uint64_t* bar, uint32_t parity, const mkrt::MkStep* step) {
  const uint64_t start = mk_time_ns();
  while (!mk_mbar_try_wait(bar, parity))
    if (step->timeout_ns != 0 && mk_time_ns() - start > step->timeout_ns) return false;
  return true;
}

}  // namespace emulator_tests
