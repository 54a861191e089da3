// Doctor checks the primitives that kernels consist of. Each check compares a kernel of
// codegen/device/probe.cc with the result of the host.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/targets.h"
#include "tools/doctor/gpu.h"

namespace mkc {

using Words = std::vector<uint32_t>;

struct Probe {
  std::string name;  // name of the instruction, for people
  std::string kernel;
  uint32_t blocks = 1, threads = 32, shared_bytes = 0;
  uint32_t argument = 0;  // third argument of the kernel, mostly a number of rounds
  Words in{};
  size_t out_words = 0;
  std::function<std::string(const Words& out)> check{};  // returns the fault; "": none
  std::string without{};                                 // target feature not to use if the check fails
};

// Returns the probes for a target with these engines.
std::vector<Probe> probes_of(const Engines& engines);

// Runs a probe. Returns the driver's error or the fault found, or "" if the probe passed.
std::string run_probe(Gpu& gpu, const Probe& probe);

}  // namespace mkc
